"""What it costs to make text in the API's process (vLLM's way) or in one of its own (SGLang's).

Two servers run at once and get the same load in turns, so that the machine's mood hits both. Per output
token: CPU time of the API process, CPU time of the detokeniser, and the mean gap between two pieces as a
client sees them. The API's time is what limits how many streams one event loop can feed; the gap shows the
price of the hop.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from engine.errors import CutawayError
from workbench.demo_load import stream_chat, user
from workbench.servers import running_servers

MODES = ("api", "process")
START_S = 180.0


@dataclass(frozen=True, slots=True)
class Cost:
    """One mode, medians over the rounds."""

    mode: str
    tokens_per_s: float
    api_us: float
    """CPU time of the API process per token, in us."""
    detokenizer_us: float
    """The same of the detokeniser; 0: there is none."""
    gap_ms: float
    """Between two pieces of one answer, at the client."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server under load, and the processes whose time is counted."""

    url: str
    model: str
    api_pid: int
    detokenizer_pid: int | None


def measure(model: str, rounds: int = 5, concurrency: int = 16, new_tokens: int = 64) -> list[Cost]:
    """Rounds over both modes after a warm-up. Raises CutawayError if a server does not start."""
    with ExitStack() as stack:
        servers = {mode: stack.enter_context(_serving(model, mode)) for mode in MODES}
        seen: dict[str, list[Cost]] = {mode: [] for mode in MODES}
        for i in range(rounds + 1):
            for mode, server in servers.items():
                cost = _run(mode, server, concurrency, new_tokens)
                if i:
                    seen[mode].append(cost)
    return [_median(mode, costs) for mode, costs in seen.items()]


def _median(mode: str, costs: list[Cost]) -> Cost:
    fields = ("tokens_per_s", "api_us", "detokenizer_us", "gap_ms")
    return Cost(mode, *(statistics.median(getattr(c, field) for c in costs) for field in fields))


def _run(mode: str, server: Served, concurrency: int, new_tokens: int) -> Cost:
    pids = (server.api_pid, server.detokenizer_pid)
    before, start = [_cpu_s(pid) for pid in pids], time.perf_counter()
    gaps, num_tokens = asyncio.run(_load(server, concurrency, new_tokens))
    seconds = time.perf_counter() - start
    api_us, text_us = (
        (_cpu_s(pid) - cpu) * 1e6 / num_tokens for pid, cpu in zip(pids, before, strict=True)
    )
    return Cost(mode, num_tokens / seconds, api_us, text_us, statistics.mean(gaps) * 1000)


async def _load(server: Served, concurrency: int, new_tokens: int) -> tuple[list[float], int]:
    """Gaps between the pieces of all answers, and how many pieces there were."""
    gaps: list[float] = []
    num_pieces = 0

    async def ask(client: httpx.AsyncClient, i: int) -> None:
        nonlocal num_pieces
        last = None
        question = [user(f"Tell me a story about the number {i}.")]
        async for _ in stream_chat(client, server.model, question, new_tokens):
            now = time.perf_counter()
            if last is not None:
                gaps.append(now - last)
            last = now
            num_pieces += 1

    async with httpx.AsyncClient(base_url=server.url, timeout=600) as client:
        await asyncio.gather(*(ask(client, i) for i in range(concurrency)))
    return gaps, num_pieces


@contextmanager
def _serving(model: str, mode: str) -> Iterator[Served]:
    """A `cutaway serve` without a trace, for the time of the block."""
    command = [sys.executable, "-m", "workbench.cli", "serve", "--model", model, "--port", "0"]
    command += ["--detokenizer", mode, "--trace-level", "off", "--max-model-len", "1024"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield _wait_for(process, mode)
    finally:
        process.terminate()
        process.wait()


def _wait_for(process: "subprocess.Popen[bytes]", mode: str) -> Served:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        for server in running_servers():
            if server.pid == process.pid:
                api_pid = next(pid for pid in _children(process.pid) if _children(pid))
                # Below the API: the core, and after it the detokeniser.
                text_pid = max(_children(api_pid)) if mode == "process" else None
                return Served(server.url, server.model, api_pid, text_pid)
        time.sleep(0.1)
    raise CutawayError(f"the server with --detokenizer {mode} did not start")


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


def _cpu_s(pid: int | None) -> float:
    """User and system time of a process so far."""
    if pid is None:
        return 0.0
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
