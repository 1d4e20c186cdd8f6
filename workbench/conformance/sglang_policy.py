"""Replay of golden files of kind policy: the order of the waiting queue, given a tree."""

from collections.abc import Iterator
from typing import Any

from engine.kv.radix import RadixKV
from engine.scheduler.sglang_policy import CACHE_AWARE, QueuePolicy
from engine.scheduler.sglang_queue import SglangQueue
from engine.sequence import Sequence
from tracing.record import NO_RECORDER
from workbench.conformance.sglang_setup import engine_config, insert, make_request, number_by_name
from workbench.conformance.sglang_tree import our_state, their_state

MECHANISM = "sglang queue policies"
POLICY = "sglang/srt/managers/schedule_policy.py SchedulePolicy"
RULES = {
    "active_policy": f"{POLICY}._determine_active_policy: fallbacks to fcfs",
    "order": f"{POLICY}.calc_priority",
    "device_match": f"{POLICY}._compute_prefix_matches",
    "counted_match": "sglang/srt/mem_cache/common.py match_kv_cache: at most length - 1",
    "set_back": f"{POLICY}._compute_prefix_matches: the in-batch rule",
    "sizes": f"{POLICY}: looking takes nothing",
    "tree": f"{POLICY}: looking cuts edges",
    "old_to_new": f"{POLICY}._touch_waiting_prefixes, _compute_prefix_matches: looking is recent use",
    "leaves": f"{POLICY}: looking cuts edges",
}


def num_steps(case: dict[str, Any]) -> int:
    """One ordering."""
    return 1


def steps(case: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(theirs, ours) after ordering the queue."""
    config, theirs = case["config"], dict(case["got"])
    engine = engine_config(config)
    kv = RadixKV(engine, NO_RECORDER)
    for spec in case["tree_inserts"]:
        insert(kv, spec)
    queue, names = _queue(case)
    keys = config.get("running_routing_keys", [])
    running = [
        Sequence(make_request(-1 - i, {"tokens": [0], "routing_key": key}), 0)
        for i, key in enumerate(keys)
    ]
    policy = QueuePolicy(engine, kv, NO_RECORDER)
    active = policy.active(len(queue))
    set_back = policy.sort(queue, running)
    matched = {names[seq.request_id]: queue.ticket(seq).num_matched_tokens for seq in queue}
    counted = {
        names[seq.request_id]: min(matched[names[seq.request_id]], seq.num_tokens - 1)
        for seq in queue
    }
    in_order = [spec["rid"] for spec in case["queue"]]
    backs = {names[i] for i in set_back}
    ours = {
        "active_policy": active,
        "order": [names[seq.request_id] for seq in queue],
        "device_match": matched,
        "counted_match": counted,
        "set_back": [rid for rid in in_order if rid in backs] if active in CACHE_AWARE else None,
    }
    for field in ("device_match", "counted_match"):
        if theirs[field] is None:  # left out of long queues
            ours[field] = None
    if case["tree_after"] is not None:
        theirs |= their_state(case["tree_after"])
        ours |= our_state(kv, case["tree_after"])
    yield theirs, ours


def _queue(case: dict[str, Any]) -> tuple[SglangQueue, dict[int, str]]:
    numbers = number_by_name(case["queue"])
    queue = SglangQueue()
    for spec in case["queue"]:
        queue.clock_tokens = spec.get("arrived_at", 0)
        queue.add(Sequence(make_request(numbers[spec["rid"]], spec), 0))
    queue.clock_tokens = case["config"].get("processed_tokens", 0)
    return queue, {number: rid for rid, number in numbers.items()}
