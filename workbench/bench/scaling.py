"""Does scheduling stay cheap? A lookup of a long prompt in the radix tree, and steps after many requests.

No model and no text: prompts and outputs are random tokens, so that what is timed is bookkeeping alone. A
lookup compares the prompt with one edge after the other, so its cost is that of its tokens and of the edges
on its path. A step's cost must not depend on how many requests have ended before it.
"""

import random
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from engine.batch import StepOutput
from engine.config import EngineConfig
from engine.config_sglang import SglangConfig
from engine.kv.block_pool import Block
from engine.kv.radix_cache import RadixCache
from engine.request import Request, SamplingParams
from engine.scheduler import make_scheduler
from engine.scheduler.base import Scheduler
from tracing.record import NO_RECORDER

PROMPT_TOKENS = 32_768
VOCABULARY = 50_000
CONCURRENCY = 16
CONFIG = EngineConfig(max_num_seqs=CONCURRENCY, max_model_len=512, num_blocks=513)
POLICIES = {
    "vllm": CONFIG,
    "sglang": replace(
        CONFIG,
        policy="sglang",
        cache="radix",
        block_size=1,
        num_blocks=8193,
        sglang=SglangConfig(schedule_policy="lpm"),
    ),
}


@dataclass(frozen=True, slots=True)
class Lookup:
    """One shape of tree, and what finding the whole prompt in it takes (median)."""

    block_size: int
    num_edges: int
    ms: float


@dataclass(frozen=True, slots=True)
class Window:
    """Mean time of a step while the last of so many requests ran."""

    policy: str
    num_finished: int
    us_per_step: float


def measure_lookups(rounds: int) -> Iterator[Lookup]:
    """A prompt of 32k tokens whose path has 1, 64 or 1024 edges, in blocks of 1 and of 16 tokens."""
    rng = random.Random(0)
    tokens = [rng.randrange(VOCABULARY) for _ in range(PROMPT_TOKENS)]
    for block_size in (1, 16):
        for num_edges in (1, 64, 1024):
            cache = RadixCache(block_size, SglangConfig(), NO_RECORDER)
            for edge in range(1, num_edges + 1):
                known = tokens[: PROMPT_TOKENS * edge // num_edges]
                cache.insert(known, [Block(0)] * (len(known) // block_size), (None, None))
            times = []
            for _ in range(rounds):
                start = time.perf_counter_ns()
                hit = cache.match(tokens, len(tokens), (None, None))
                times.append(time.perf_counter_ns() - start)
                assert hit.num_tokens == PROMPT_TOKENS
            yield Lookup(block_size, num_edges, statistics.median(times) / 1e6)


def measure_steps(policy: str, num_windows: int, requests_per_window: int) -> Iterator[Window]:
    """Windows of one long run with a constant number of concurrent requests."""
    scheduler = make_scheduler(POLICIES[policy], NO_RECORDER)
    rng = random.Random(0)
    for window in range(1, num_windows + 1):
        first = (window - 1) * requests_per_window
        requests = [make_request(first + i, rng) for i in range(requests_per_window)]
        start = time.perf_counter_ns()
        num_steps = run(scheduler, requests, rng)
        spent = time.perf_counter_ns() - start
        yield Window(policy, first + requests_per_window, spent / num_steps / 1e3)


def make_request(request_id: int, rng: random.Random) -> Request:
    """64 to 127 prompt tokens that nobody else has, 16 output tokens."""
    return Request(
        request_id=request_id,
        prompt_token_ids=[rng.randrange(VOCABULARY) for _ in range(rng.randrange(64, 128))],
        params=SamplingParams(temperature=0, max_tokens=16),
        arrival_ns=request_id,
    )


def run(scheduler: Scheduler, requests: list[Request], rng: random.Random) -> int:
    """Keep twice as many requests in as can run, until all have ended; returns the number of steps."""
    requests, num_steps = requests[::-1], 0
    while requests or scheduler.num_unfinished:
        while requests and scheduler.num_unfinished < 2 * CONCURRENCY:
            scheduler.add(requests.pop())
        batch = scheduler.schedule()
        assert batch is not None
        tokens = [(rng.randrange(VOCABULARY),) if row.samples else () for row in batch.rows]
        scheduler.update(batch, StepOutput(tuple(tokens)), 0)
        num_steps += 1
    return num_steps
