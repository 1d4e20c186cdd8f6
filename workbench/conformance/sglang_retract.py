"""Replay of golden files of kinds retract and ratio: who loses its memory, what is set aside afterwards."""

from collections.abc import Iterator
from typing import Any

from engine.kv.radix import RadixKV
from engine.scheduler.sglang_ratio import NewTokenRatio, ratio_after_retraction
from engine.scheduler.sglang_retract import decode_fits, decode_need, retract
from engine.sequence import Sequence
from workbench.conformance.sglang_setup import (
    engine_config,
    insert,
    make_kv,
    make_request,
    number_by_name,
    run_up,
)
from workbench.conformance.sglang_tree import our_state, sizes_of, their_state

MECHANISM = "sglang retraction"
RETRACT = "sglang/srt/managers/schedule_batch.py retract_decode"
TRACKER = "sglang/srt/managers/scheduler_components/new_token_ratio_tracker.py"
RULES = {
    "before": "sglang/srt/mem_cache/allocation.py alloc_for_decode",
    "needed": "sglang/srt/managers/schedule_batch.py new_tokens_required_next_decode",
    "fits": "sglang/srt/mem_cache/allocator/base.py check_decode_capacity",
    "after_check": "sglang/srt/mem_cache/allocator/base.py evict_to_free_tokens",
    "retracted": f"{RETRACT}: fewest generated first, of these the longest prompt",
    "aborted": f"{RETRACT}: the last one, if it does not fit alone",
    "kept": f"{RETRACT}: the order of retraction stays",
    "new_token_ratio": f"{TRACKER} estimate_new_token_ratio_after_retract",
    "after": "sglang/srt/managers/schedule_batch.py release_req: room for 20 steps of the others",
    "needed_after": "sglang/srt/managers/schedule_batch.py new_tokens_required_next_decode",
    "sizes": RETRACT,
    "tree": f"{RETRACT}: nothing more is published",
    "old_to_new": RETRACT,
    "leaves": RETRACT,
    "ratio": f"{TRACKER}: initial value, decay, floor; estimate after a retraction",
}


def num_steps(case: dict[str, Any]) -> int:
    """One decode step; of a ratio case each tracker and each estimate."""
    if case["kind"] == "ratio":
        return len(case["trackers"]) + len(case["after_retract"])
    return 1


def steps(case: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(theirs, ours)."""
    if case["kind"] == "ratio":
        yield from _ratios(case)
    else:
        yield _retraction(case)


def _retraction(case: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    kv = make_kv(case["config"])
    for spec in case["tree_inserts"]:
        insert(kv, spec)
    numbers = number_by_name(case["running"])
    names = {number: rid for rid, number in numbers.items()}
    running = [run_up(kv, numbers[spec["rid"]], spec) for spec in case["running"]]
    ours: dict[str, Any] = {"before": sizes_of(kv), "needed": decode_need(kv, running)}
    ours["fits"] = decode_fits(kv, running)
    ours["after_check"] = sizes_of(kv)
    if not ours["fits"]:
        ours |= _victims(kv, running, case["config"], names)
    ours |= our_state(kv, case["tree_after"])
    return case["got"] | their_state(case["tree_after"]), ours


def _victims(
    kv: RadixKV, running: list[Sequence], config: dict[str, Any], names: dict[int, str]
) -> dict[str, Any]:
    done = retract(kv, running, engine_config(config).sglang)
    return {
        "retracted": [names[victim.seq.request_id] for victim in done.retracted],
        "aborted": [names[done.aborted.seq.request_id]] if done.aborted else [],
        "kept": [names[seq.request_id] for seq in done.kept],
        "new_token_ratio": ratio_after_retraction(done.kept),
        "after": sizes_of(kv),
        "needed_after": decode_need(kv, done.kept),
    }


def _ratios(case: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for theirs in case["trackers"]:
        ratio = NewTokenRatio(theirs["schedule_conservativeness"])
        start = {"init": ratio.init, "min": ratio.min, "decay": ratio.decay}
        wanted = {int(num) for num in theirs["after_steps"]}
        after = {}
        for num in range(max(wanted) + 1):
            if num in wanted:
                after[str(num)] = ratio.current
            ratio.step()
        kept = {"schedule_conservativeness": theirs["schedule_conservativeness"]}
        yield {"ratio": theirs}, {"ratio": kept | start | {"after_steps": after}}
    for theirs in case["after_retract"]:
        seqs = [_survivor(i, *numbers) for i, numbers in enumerate(theirs["generated_and_max_new"])]
        yield {"ratio": theirs["ratio"]}, {"ratio": ratio_after_retraction(seqs)}


def _survivor(number: int, generated: int, max_new: int) -> Sequence:
    seq = Sequence(make_request(number, {"tokens": [0], "max_new": max_new}), 0)
    seq.token_ids += [0] * generated
    return seq
