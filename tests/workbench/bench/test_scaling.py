"""Bookkeeping counted, not timed: how many function calls a step costs, and a lookup."""

import random
import sys
from collections.abc import Callable

import pytest

from engine.config_sglang import SglangConfig
from engine.kv.block_pool import Block
from engine.kv.radix_cache import RadixCache
from engine.scheduler import make_scheduler
from tracing.record import NO_RECORDER
from workbench.bench.scaling import POLICIES, make_request, measure_lookups, measure_steps, run


def count_calls(function: Callable[[], object]) -> int:
    calls = 0

    def on_event(frame: object, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(on_event)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("policy", POLICIES)
def test_a_step_costs_the_same_however_many_requests_have_ended(policy):
    scheduler = make_scheduler(POLICIES[policy], NO_RECORDER)
    rng = random.Random(0)
    per_step = []
    for window in range(6):
        requests = [make_request(100 * window + i, rng) for i in range(100)]
        steps: list[int] = []
        calls = count_calls(lambda: steps.append(run(scheduler, requests, rng)))  # noqa: B023  called at once
        per_step.append(calls / steps[0])
    # The first window finds the pool empty.
    assert max(per_step[1:]) < 1.05 * min(per_step[1:])


@pytest.mark.parametrize("num_edges", [1, 100])
def test_a_lookup_costs_calls_per_edge_and_none_per_token(num_edges):
    tokens = list(range(3200))
    cache = RadixCache(1, SglangConfig(), NO_RECORDER)
    for edge in range(1, num_edges + 1):
        known = tokens[: len(tokens) * edge // num_edges]
        cache.insert(known, [Block(0)] * len(known), (None, None))
    assert count_calls(lambda: cache.match(tokens, 3200, (None, None))) < 30 * (num_edges + 1)


def test_the_measurements_run():
    lookup = next(measure_lookups(rounds=1))
    assert (lookup.block_size, lookup.num_edges) == (1, 1)
    windows = list(measure_steps("vllm", num_windows=2, requests_per_window=20))
    assert [window.num_finished for window in windows] == [20, 40]
