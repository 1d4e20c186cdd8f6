"""A small recorded run with everything in it: chunks, hits, preemptions, evictions, aborts, and a front end.

The toy core of the engine's tests runs real scheduling on real KV bookkeeping; this file plays the front end
and writes what that would have written. What the engine really looked like after each step is kept beside it.
"""

import random
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from engine.batch import Batch, StepOutput
from engine.core import EngineCore
from engine.messages import CoreOutput
from engine.request import Request, SamplingParams
from tests.engine.toys import toy_core
from tests.tracing.test_engine_agreement import Told, pool_now
from tracing.record import NULL, Code, Phase, Recorder

EPOCH_NS = 1_796_000_000_000_000_000


class ToyClock:
    """Monotonic ns that only tests move; reading takes a microsecond."""

    def __init__(self) -> None:
        self.now = 1_000_000_000

    def __call__(self) -> int:
        self.now += 1_000
        return self.now


@dataclass
class Seen:
    """The engine after a step, as it saw itself."""

    running: list[int]
    waiting: list[int]
    pool: Told | None


@dataclass
class ToyRun:
    """Drives a core with random traffic; requests are numbered from 1 in the order of arrival."""

    core: EngineCore
    front: Recorder
    seed: int = 0
    model: str = "toy"
    seen: dict[int, Seen] = field(default_factory=dict)
    """By step."""
    num_requests: int = 0
    watch_pool: bool = True

    def __post_init__(self) -> None:
        config = self.core.scheduler.config
        self.core.recorder.describe_run(
            policy=config.policy,
            cache_kind=config.cache,
            block_size=config.block_size,
            num_blocks=config.num_blocks,
            model=self.model,
            config={"scheduling_policy": config.scheduling_policy, "device": "cpu"},
        )
        self.random = random.Random(self.seed)
        self.arrivals: dict[int, Request] = {}
        self.tokens: dict[int, tuple[int, int, int]] = {}
        """Request -> (how many, first, last)."""
        self.clock = ToyClock()
        self.core.clock = self.core.scheduler.clock = self.clock
        self.core.recorder.clock = self.front.clock = self.clock
        self.core.executor = SlowExecutor(self.core.executor, self.clock)

    def run(self, num_steps: int, *, load: tuple[int, ...] = (0, 0, 1, 2)) -> None:
        """So many turns of the loop, with `load` to choose arrivals per turn from, and some aborts."""
        for _ in range(num_steps):
            for _ in range(self.random.choice(load)):
                self.arrive()
            if self.arrivals and self.random.random() < 0.04:
                self.core.abort(self.random.choice(list(self.arrivals)), Code.ABORT_DISCONNECT, 3)
            self.turn()

    def drain(self) -> None:
        """Until nothing is left to do."""
        while self.core.has_work:
            self.turn()

    def turn(self) -> None:
        """One turn of the core's loop."""
        before = self.core.scheduler.num_steps
        outputs = self.core.step()
        if self.core.scheduler.num_steps > before:
            scheduler = self.core.scheduler
            pool = pool_now(self.core) if self.watch_pool else None
            running = [seq.request_id for seq in scheduler.running]
            waiting = [seq.request_id for seq in scheduler.waiting]
            self.seen[before] = Seen(running, waiting, pool)
        for output in outputs:
            if output.token_ids:
                n, first, _ = self.tokens.get(output.request_id, (0, output.ts_ns, 0))
                self.tokens[output.request_id] = n + len(output.token_ids), first, output.ts_ns
            if output.end is not None:
                self._end(output)

    def arrive(self, prompt: list[int] | None = None, max_tokens: int | None = None) -> int:
        """A request comes in; returns its id."""
        self.num_requests += 1
        request_id = (self.front.proc_id << 32) + self.num_requests
        if prompt is None:
            family = [self.random.randrange(3)] * self.random.randrange(4, 14)
            prompt = family + [
                self.random.randrange(50) for _ in range(self.random.randrange(1, 20))
            ]
        max_tokens = max_tokens or self.random.randrange(2, 24)
        arrival_ns = self.front.clock()
        params = SamplingParams(temperature=0, max_tokens=max_tokens)
        request = Request(
            request_id=request_id,
            prompt_token_ids=prompt,
            params=params,
            arrival_ns=arrival_ns,
            sent_ns=self.front.clock(),
        )
        fields = (request_id, NULL, 1, request_id, request_id, NULL, arrival_ns, True, len(prompt))
        self.front.request(
            (*fields, max_tokens, 0, 0, 0, 1_000_000, NULL, NULL),
            external_id=f"chat-{self.num_requests}",
            operation="chat",
        )
        self.front.flush()
        self.arrivals[request_id] = request
        self.core.add(request)
        return request_id

    def _end(self, output: CoreOutput) -> None:
        """The front end's account of a request that has ended."""
        end, request = output.end, self.arrivals.pop(output.request_id)
        assert end is not None
        now, who = self.front.clock(), output.request_id
        marks: list[tuple[int, int, int]] = [(Phase.RECEIVE, request.arrival_ns, -1), *end.phases]
        marks += [(Phase.TO_API, end.end_ns, -1), (Phase.DELIVER, now, -1)]
        for (phase, start, step), (_, until, following) in pairwise(marks):
            last = (
                NULL if step < 0 else max(step, following - 1 if following >= 0 else end.last_step)
            )
            first = NULL if step < 0 else step
            self.front.phase(who, phase, start, max(start, until), first, last)
        hit = NULL if end.num_cached_tokens is None else end.num_cached_tokens
        n, first_ns, last_ns = self.tokens.pop(who, (0, NULL, NULL))
        counts: tuple[Any, ...] = (n, hit, end.num_recomputed_tokens, end.num_preemptions)
        times = (first_ns, last_ns, NULL, 0, end.a0)
        self.front.request_end((who, now, end.code, 200, *counts, *times))
        self.front.flush()


@dataclass
class SlowExecutor:
    """Runs the toy model; the clock passes as a real one would: so much a step, a prompt token, a decode."""

    inner: Any
    clock: ToyClock

    @property
    def depth(self) -> int:
        return int(self.inner.depth)

    def submit(self, batch: Batch) -> None:
        self.inner.submit(batch)
        decodes = sum(not row.is_prefill for row in batch.rows)
        self.clock.now += 6_500_000 + 210_000 * (batch.num_tokens - decodes) + 850_000 * decodes

    def collect(self) -> StepOutput:
        output: StepOutput = self.inner.collect()
        return output

    def close(self) -> None:
        self.inner.close()


def make_toy_run(core: Recorder, front: Recorder, *, seed: int = 0, **settings: object) -> ToyRun:
    """A run under memory pressure, unless the settings say otherwise."""
    return ToyRun(toy_core(core, **({"num_blocks": 24} | settings)), front, seed)
