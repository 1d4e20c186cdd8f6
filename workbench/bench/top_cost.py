"""What it costs to watch: processor time of `cutaway top`, and whether the engine feels it.

    engine      real scheduler, KV bookkeeping and recording; the model is a loop that keeps a core busy
    viewer      the real command in a pseudo terminal of 120 x 36, its output read and thrown away
    rounds      viewer off, on, off, on ...; steps per second are compared within a round

The engine's time per step is fixed by its loop, so a viewer that slowed it would show as fewer steps. On a
machine with fewer cores than engine, recorder and viewer need, they share: that is part of the figure.
"""

import fcntl
import multiprocessing
import os
import pty
import statistics
import struct
import sys
import tempfile
import termios
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

import tracing
from engine.batch import Batch, StepOutput
from engine.config import EngineConfig
from engine.core import EngineCore
from engine.request import Request, SamplingParams
from engine.scheduler import make_scheduler
from tracing.record import NULL

PROMPT_TOKENS, OUTPUT_TOKENS = 64, 400
SETTLE_SECONDS = 3.0
"""For a viewer to load its history, before it is measured."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What was found, medians over rounds."""

    cpu_share: float
    """Of one core, of the viewer while it follows."""
    steps_per_s_alone: float
    steps_per_s_watched: float
    ratio: float
    """Watched / alone, median of the rounds' ratios."""


class BusyExecutor:
    """A step is so many seconds of work on this core."""

    depth = 1

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._outputs: deque[StepOutput] = deque()

    def submit(self, batch: Batch) -> None:
        """Work, then sample token 7 for whoever is due."""
        end = time.perf_counter() + self._step_s
        while time.perf_counter() < end:
            pass
        self._outputs.append(StepOutput(tuple((7,) if row.samples else () for row in batch.rows)))

    def collect(self) -> StepOutput:
        """The oldest step's output."""
        return self._outputs.popleft()

    def close(self) -> None:
        """Nothing is held."""


def measure(*, num_seqs: int, step_s: float, rounds: int, seconds: float) -> Cost:
    """Watch and do not watch, in turns. Raises TraceError if the recorder does not start."""
    shares, alone, watched = [], [], []
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "run"
        steps, stop = context.Value("q", 0), context.Event()
        engine = context.Process(target=_run, args=(folder, num_seqs, step_s, steps, stop))
        engine.start()
        stack.callback(engine.join)
        stack.callback(stop.set)
        while not steps.value:
            time.sleep(0.1)
        for _ in range(rounds):
            alone.append(_steps_per_s(steps, seconds))
            viewer = Viewer(folder)
            time.sleep(SETTLE_SECONDS)
            before = viewer.cpu_seconds()
            watched.append(_steps_per_s(steps, seconds))
            shares.append((viewer.cpu_seconds() - before) / seconds)
            viewer.stop()
    ratios = [w / a for w, a in zip(watched, alone, strict=True)]
    found = (statistics.median(values) for values in (shares, alone, watched, ratios))
    return Cost(*found)


class Viewer:
    """`cutaway top` on a run, in a pseudo terminal that somebody reads."""

    def __init__(self, run_dir: Path) -> None:
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
            for name in ("COLUMNS", "LINES"):
                os.environ.pop(name, None)
            words = [sys.executable, "-m", "workbench.cli", "top", str(run_dir)]
            os.execv(sys.executable, words)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def cpu_seconds(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Press q and wait."""
        os.write(self._fd, b"q")
        os.waitpid(self._pid, 0)
        os.close(self._fd)

    def _read(self) -> None:
        with suppress(OSError):
            while os.read(self._fd, 65536):
                pass


def _steps_per_s(steps: "Synchronized[int]", seconds: float) -> float:
    first, start = steps.value, time.perf_counter()
    time.sleep(seconds)
    return (steps.value - first) / (time.perf_counter() - start)


def _run(
    folder: Path, num_seqs: int, step_s: float, steps: "Synchronized[int]", stop: threading.Event
) -> None:
    """An engine with so many sequences running, until told to stop."""
    config = EngineConfig(
        num_blocks=num_seqs * 40, max_model_len=1024, max_num_seqs=num_seqs, block_size=16
    )
    with tracing.start(folder) as recording:
        recorder, front = recording.recorder("core"), recording.recorder("api")
        core = EngineCore(make_scheduler(config, recorder), BusyExecutor(step_s), recorder)
        recorder.describe_run(
            policy=config.policy,
            cache_kind=config.cache,
            block_size=config.block_size,
            num_blocks=config.num_blocks,
            model="busy loop",
            config={},
        )
        number = 0
        while not stop.is_set():
            while len(core.sequences) < num_seqs:
                number += 1
                _arrive(core, front, number)
            core.step()
            steps.value = core.scheduler.num_steps


def _arrive(core: EngineCore, front: "tracing.record.Recorder", number: int) -> None:
    """A request, and the front end's word of it."""
    request_id, now = (1 << 32) + number, front.clock()
    prompt = [number % 1000 + 3] * PROMPT_TOKENS
    params = SamplingParams(temperature=0, max_tokens=OUTPUT_TOKENS + number % 97)
    fields = (request_id, NULL, 1, number, number, NULL, now, True, PROMPT_TOKENS)
    front.request(
        (*fields, OUTPUT_TOKENS, 0, 0, 0, 1_000_000, NULL, NULL),
        external_id=None,
        operation="chat",
    )
    front.flush()
    core.add(Request(request_id=request_id, prompt_token_ids=prompt, params=params, arrival_ns=now))
