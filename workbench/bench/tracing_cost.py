"""What recording costs at each level: the same load, levels in random order, ratios within a round.

Two figures per level. `engine thread`: CPU time that the recording calls themselves add per step, by the
thread's own clock, which other load on the machine does not touch. `throughput`: tokens/s beside level off in
the same round, recorder process included; on two busy cores it is noisy, hence the spread.
"""

import random
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import tracing
from engine import LLM, SamplingParams
from tracing.record import Level

LEVELS = (Level.OFF, Level.METRICS, Level.REQUESTS, Level.STEPS, Level.BLOCKS, Level.KERNELS)


@dataclass(frozen=True, slots=True)
class Cost:
    """One level beside `off`."""

    level: Level
    throughput: float
    """Median ratio to level off in the same round."""
    low: float
    high: float
    thread_ms: float
    """Median CPU time of the engine thread per step, in ms."""


def measure(model: str, rounds: int = 5, concurrency: int = 8, new_tokens: int = 32) -> list[Cost]:
    """Rounds over all levels in random order, after one warm-up."""
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as folder, tracing.start(Path(folder) / "run") as trace:
        llm = LLM(model, trace=trace, max_model_len=1024)
        recorder = trace.recorder("core")
        _run(llm, rng, concurrency, new_tokens)
        rates: dict[Level, list[float]] = {level: [] for level in LEVELS}
        thread_ms: dict[Level, list[float]] = {level: [] for level in LEVELS}
        for _ in range(rounds):
            for level in rng.sample(LEVELS, len(LEVELS)):
                recorder.level = level
                rate, ms = _run(llm, rng, concurrency, new_tokens)
                rates[level].append(rate)
                thread_ms[level].append(ms)
        recorder.level = Level.KERNELS
        llm.close()
    return [_cost(level, rates, thread_ms) for level in LEVELS]


def _cost(level: Level, rates: dict[Level, list[float]], ms: dict[Level, list[float]]) -> Cost:
    ratios = [a / b for a, b in zip(rates[level], rates[Level.OFF], strict=True)]
    return Cost(
        level, statistics.median(ratios), min(ratios), max(ratios), statistics.median(ms[level])
    )


def _run(llm: LLM, rng: random.Random, n: int, new_tokens: int) -> tuple[float, float]:
    """Tokens per second, and CPU ms of this thread per step."""
    prompts = [[rng.randrange(100, 20_000) for _ in range(64)] for _ in range(n)]
    params = SamplingParams(temperature=0, max_tokens=new_tokens, ignore_eos=True)
    steps = llm.core.scheduler.num_steps
    start, cpu = time.perf_counter(), time.thread_time()
    llm.generate(prompts, params, progress=False)
    cpu, seconds = time.thread_time() - cpu, time.perf_counter() - start
    return n * new_tokens / seconds, 1000 * cpu / (llm.core.scheduler.num_steps - steps)
