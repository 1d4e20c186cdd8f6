"""Scheduler and cache time per step without a model, beside the real vLLM scheduler in the same run.

Both replay the same golden cases with the same scripted outputs; timed are arrivals, schedule and update, not
the script. Each side runs in a process of its own, alternately.
"""

import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.batch import Batch, StepOutput
from engine.errors import ConfigError
from workbench.conformance.vllm import Replay, make_request

CASES = ("r11_prefix_200", "r12_pressure_200", "r13_pressure_nocache_200")
UPSTREAM = Path(__file__).with_name("vllm_scheduler.py")


@dataclass(frozen=True, slots=True)
class Measured:
    """One case: mean microseconds per step, medians over the rounds."""

    case: str
    ours_us: float
    vllm_us: float | None
    """None: no vLLM to compare with."""
    ratio: float | None
    """Ours / vLLM, median of the rounds' own ratios."""


def measure(folder: Path, vllm_python: str | None, rounds: int) -> list[Measured]:
    """Alternate between ours and vLLM's, case by case."""
    results = []
    for name in CASES:
        path = folder / f"{name}.json"
        if not path.exists():
            raise ConfigError(f"{path} is missing: give the folder of vLLM's golden files")
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(rounds):
            ours.append(_run([sys.executable, "-m", "workbench.bench.scheduler", str(path)]))
            if vllm_python:
                theirs.append(_run([vllm_python, str(UPSTREAM), str(path)]))
        ratio = (
            statistics.median(a / b for a, b in zip(ours, theirs, strict=True)) if theirs else None
        )
        vllm_us = statistics.median(theirs) if theirs else None
        results.append(Measured(name, statistics.median(ours), vllm_us, ratio))
    return results


def _run(command: list[str]) -> float:
    """Mean microseconds per step, as the process printed them."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise ConfigError(f"{' '.join(command)} failed:\n{done.stderr.strip()[-2000:]}")
    times: list[int] = json.loads(done.stdout.splitlines()[-1])
    return statistics.mean(times) / 1000


def play(case: dict[str, Any]) -> list[int]:
    """Nanoseconds per step of our scheduler."""
    replay = Replay(case)
    scheduler, times = replay.scheduler, []
    for step in case["steps"]:
        arrivals = [
            make_request(i, request)
            for i, request in enumerate(replay.requests)
            if request["arrival_step"] == step["step"]
        ]
        start = time.perf_counter_ns()
        for request in arrivals:
            replay.seqs[replay.names[request.request_id]] = scheduler.add(request)
        for name in step.get("abort", []):
            scheduler.abort(replay.seqs[name])
        batch = scheduler.schedule() or Batch(step["step"], 0, ())
        spent = time.perf_counter_ns() - start
        for name in step.get("abort_mid", []):
            scheduler.abort(replay.seqs[name])
        tokens = tuple(replay.sample(row) for row in batch.rows)
        start = time.perf_counter_ns()
        scheduler.update(batch, StepOutput(tokens), 0)
        times.append(spent + time.perf_counter_ns() - start)
    return times


if __name__ == "__main__":
    print(json.dumps(play(json.loads(Path(sys.argv[1]).read_text()))))
