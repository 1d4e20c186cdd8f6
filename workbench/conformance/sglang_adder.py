"""Replay of golden files of kind adder: verdicts, chunk lengths and budgets of prefill admission."""

from collections.abc import Iterator
from typing import Any

from engine.scheduler.sglang_adder import PrefillAdder, Verdict
from engine.sequence import Sequence
from workbench.conformance.sglang_setup import (
    engine_config,
    extend,
    insert,
    make_kv,
    make_request,
    number_by_name,
    run_up,
)
from workbench.conformance.sglang_tree import sizes_of

MECHANISM = "sglang prefill admission"
ADDER = "sglang/srt/managers/schedule_policy.py PrefillAdder"
RULES = {
    "start": f"{ADDER}.__init__: what running requests reserve",
    "start_sizes": f"{ADDER}.__init__",
    "chunked": f"{ADDER}.add_chunked_req: the cut prompt goes first",
    "rid": "order of the queue",
    "budget_before": f"{ADDER}.budget_state",
    "verdict": f"{ADDER}.add_one_req, budget_state",
    "admitted": f"{ADDER}.add_one_req: strictly below what is left",
    "matched": "sglang/srt/managers/schedule_batch.py init_next_round_input",
    "extend": f"{ADDER}._select_prefill_admission: whole pages of the chunk budget",
    "chunk_unfinished": f"{ADDER}._select_prefill_admission",
    "left": f"{ADDER}._update_prefill_budget",
    "sizes": f"{ADDER}._commit_prefill_admission: the prefix is locked",
    "scheduler_stops": "sglang/srt/managers/scheduler.py _get_new_batch_prefill_raw",
    "hit_tokens": f"{ADDER}._update_prefill_budget",
    "input_tokens": f"{ADDER}._update_prefill_budget",
}


def num_steps(case: dict[str, Any]) -> int:
    """The start, each request, the totals."""
    return len(case["got"]["steps"]) + 2


def steps(case: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(theirs, ours) at the start, after each request, and at the end."""
    play, got = _Play(case), case["got"]
    keys = ("start", "start_sizes", "chunked")
    yield {key: got.get(key) for key in keys}, play.begin()
    for theirs in got["steps"]:
        yield theirs, play.try_one(theirs["rid"])
    totals = ("admitted", "hit_tokens", "input_tokens")
    yield {key: got[key] for key in totals}, play.totals()


class _Play:
    def __init__(self, case: dict[str, Any]) -> None:
        config, chunked = case["config"], case["chunked_request"]
        self.chunked_spec = chunked
        specs = [*case["running"], *case["queue"], *([chunked["spec"]] if chunked else [])]
        numbers = number_by_name(specs)
        self.names = {number: rid for rid, number in numbers.items()}
        self.kv = make_kv(config)
        for spec in case["tree_inserts"]:
            insert(self.kv, spec)
        running = [run_up(self.kv, numbers[spec["rid"]], spec) for spec in case["running"]]
        self.chunked: Sequence | None = None
        if chunked:
            spec = chunked["spec"]
            self.chunked = Sequence(make_request(numbers[spec["rid"]], spec), 0)
            extend(self.kv, self.chunked, chunked["done"])
            self.kv.checkpoint(self.chunked)
        self.queue = {
            spec["rid"]: Sequence(make_request(numbers[spec["rid"]], spec), 0)
            for spec in case["queue"]
        }
        self.adder = PrefillAdder(
            self.kv,
            engine_config(config).sglang,
            running,
            config["new_token_ratio"],
            config["mixed_decode_tokens"],
            caching=not config["radix_disabled"],
        )
        self.num_hit_tokens = 0
        self.has_stopped = False

    def begin(self) -> dict[str, Any]:
        """Budgets before anybody; then the cut prompt's next chunk, if there is one."""
        ours: dict[str, Any] = {"start": self._left(), "start_sizes": sizes_of(self.kv)}
        ours["chunked"] = None
        if self.chunked is not None:
            prefix = self.chunked.num_computed_tokens
            self.adder.continue_chunk(self.chunked, None)
            admission = self.adder.admitted[0]
            ours["chunked"] = {
                "rid": self.names[self.chunked.request_id],
                "prefix": prefix,
                "extend": admission.num_tokens,
                "unfinished": admission.cut is not None,
                "left": self._left(),
            }
        return ours

    def try_one(self, rid: str) -> dict[str, Any]:
        """One request of the queue; the case goes on where a scheduler would stop."""
        seq, adder = self.queue[rid], self.adder
        before, num_before = adder.verdict(), len(adder.admitted)
        hit = self.kv.lookup(seq)
        verdict = adder.add(seq, hit)
        is_admitted = len(adder.admitted) > num_before
        ours: dict[str, Any] = {
            "rid": rid,
            "budget_before": before.name,
            "verdict": verdict.name,
            "admitted": is_admitted,
            "matched": hit.num_tokens,
            "left": self._left(),
            "sizes": sizes_of(self.kv),
        }
        if is_admitted:
            admission = adder.admitted[-1]
            ours["extend"] = admission.num_tokens
            ours["chunk_unfinished"] = admission.cut is not None
            self.num_hit_tokens += hit.num_tokens
        stops = "before" if before is Verdict.OTHER else "after"
        if not self.has_stopped and (before is Verdict.OTHER or verdict is not Verdict.CONTINUE):
            self.has_stopped = True
            ours["scheduler_stops"] = stops
        return ours

    def totals(self) -> dict[str, Any]:
        """All that were admitted."""
        return {
            "admitted": [self.names[a.seq.request_id] for a in self.adder.admitted],
            "hit_tokens": self.num_hit_tokens,
            "input_tokens": sum(a.num_tokens for a in self.adder.admitted),
        }

    def _left(self) -> dict[str, Any]:
        return {
            "total": self.adder.total_left,
            "current": self.adder.current_left,
            "input": self.adder.input_left,
            "chunk": self.adder.chunk_left,
        }
