"""Recording a run: who makes the folder, who starts the recorder, and how other processes join in.

    with tracing.start() as recording:              the process that composes everything
        llm = LLM(..., trace=recording)              records as `api` and `core` from inside it
        attach(handle, "core")                       or: the core is a process of its own
        recording.query("latency_percentiles")       asks the recorder, while it goes on

The key with which block hashes are masked lives in `RunHandle` only: it is drawn per run, passed on to child
processes, and never written to disk, so that hashes in a trace cannot be matched to anybody's text.

Invariant: recording never waits for the recorder; only asking and closing do. If the recorder dies, whoever
needs it next starts another, which goes on where the first one was.
"""

import os
import secrets
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracing.errors import TraceError
from tracing.record import Level, Recorder
from tracing.runs import RUN_FILE, RunInfo, lock_run, new_run_folder
from tracing.spool import PREFERRED_PROC, SpoolWriter

if TYPE_CHECKING:  # HTTP and the OpenTelemetry SDK only where they are used
    from opentelemetry.trace import TracerProvider

    from tracing.reader import LiveRun, Run
    from tracing.result import Result

CLOSE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RunHandle:
    """What a child process needs to record into the same run; can be pickled, plain values for JSON."""

    run_dir: str
    run_id: str
    level: int
    record_tokens: bool
    epoch_offset_ns: int
    hash_key: str
    """Hexadecimal. Not to be stored."""


class Participant:
    """One process's part in a run that another one looks after; implements `tracing.record.Trace`.

    A recorder belongs to the thread using it.
    """

    def __init__(self, handle: RunHandle) -> None:
        self.handle = handle
        self.epoch_offset_ns = handle.epoch_offset_ns
        """Epoch ns = monotonic ns + this, on the run's clock."""
        self._recorders: dict[str, Recorder] = {}
        self._provider: TracerProvider | None = None

    def recorder(self, role: str) -> Recorder:
        """The recorder of this process in a role (`core`, `api`); made at first use."""
        if role not in self._recorders:
            self._recorders[role] = attach(self.handle, role)
        return self._recorders[role]

    @property
    def tracer_provider(self) -> "TracerProvider":
        """OpenTelemetry provider for request-level spans; they land in the `api` spool."""
        if self._provider is None:
            from tracing.spans import make_provider

            self._provider = make_provider(self.recorder("api"))
        return self._provider

    def wall_ns(self, monotonic_ns: int) -> int:
        """Epoch ns on the run's clock, for the explicit times of a span."""
        return monotonic_ns + self.epoch_offset_ns

    def leave(self) -> None:
        """Say goodbye in all roles; the run goes on."""
        for recorder in self._recorders.values():
            recorder.close()


class Recording(Participant):
    """A run being recorded, by who started it: it looks after the recorder and can ask it."""

    def __init__(self, handle: RunHandle) -> None:
        super().__init__(handle)
        self.run_dir = Path(handle.run_dir)
        self._live: LiveRun | None = None
        self._sealed: Run | None = None
        self._children: list[subprocess.Popen[bytes]] = []
        self._start_recorder_if_there_is_none()

    @property
    def url(self) -> str:
        """Where the recorder answers; waits until it does. Raises TraceError if it does not start."""
        return self._recorder_process().url

    def sync(self) -> None:
        """Returns when all that was recorded so far can be asked for."""
        for recorder in self._recorders.values():
            recorder.flush()
        self._recorder_process().sync()

    def query(self, name: str, /, **params: Any) -> "Result":
        """A query of `tracing/sql` by name; also after `close`. Raises TraceError."""
        return self._run().query(name, **params)

    def sql(self, text: str) -> "Result":
        """One SELECT, EXPLAIN or DESCRIBE; also after `close`. Raises TraceError."""
        return self._run().sql(text)

    def close(self) -> None:
        """Say goodbye in all roles and wait until the run is sealed, a minute at most.

        Raises TraceError if it takes longer; the recorder goes on by itself.
        """
        self.leave()
        deadline = time.monotonic() + CLOSE_SECONDS
        if not self._is_sealed():
            live = self._recorder_process()
            live.finish()
            live.close()
            self._live = None
        while not self._is_sealed():
            if time.monotonic() > deadline:
                raise TraceError(f"the recorder still writes {self.run_dir}; give it time")
            time.sleep(0.01)
        for child in self._children:
            child.wait()

    def recorder_died(self) -> int | None:
        """The signal that ended the recorder started here (0: none), told once; None: it lives."""
        died = next((child for child in self._children if child.poll() is not None), None)
        if died is None or self._is_sealed():
            return None
        self._children.remove(died)
        return max(0, -died.returncode)

    def revive(self) -> None:
        """Start another recorder in place of one that died; it goes on where that was."""
        self._start_recorder_if_there_is_none()

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_sealed(self) -> bool:
        return RunInfo.load(self.run_dir).state == "sealed"

    def _run(self) -> "Run":
        """Who can answer: the recorder, or the tables themselves once they are sealed."""
        if self._sealed is None and self._is_sealed():
            from tracing.reader import open_run

            self._sealed = open_run(self.run_dir)
        return self._sealed or self._recorder_process()

    def _start_recorder_if_there_is_none(self) -> bool:
        from tracing.reader import start_recorder

        lock = lock_run(self.run_dir)
        if lock is None:
            return False
        self._children.append(start_recorder(self.run_dir, lock, parent=os.getpid()))
        return True

    def _recorder_process(self) -> "LiveRun":
        """The recorder, as soon as it answers. If it has died, another one goes on where it was."""
        from tracing.reader import PATIENCE_SECONDS, try_live

        if self._live is not None and self._live.answers():
            return self._live
        info = RunInfo.load(self.run_dir)
        deadline = time.monotonic() + PATIENCE_SECONDS
        num_started = 0
        while num_started < 2 and time.monotonic() < deadline:
            num_started += self._start_recorder_if_there_is_none()
            self._live = try_live(self.run_dir, info)
            if self._live is not None:
                return self._live
            time.sleep(0.02)
        log = (self.run_dir / "recorder.log").read_text().strip().split("\n")[-1]
        said = log or "it says nothing; has the run been sealed meanwhile?"
        raise TraceError(f"no recorder works for {self.run_dir}: {said}")


def start(
    run_dir: str | Path | None = None,
    *,
    level: Level = Level.KERNELS,
    record_tokens: bool = False,
) -> Recording:
    """Begin a run and its recorder; does not wait for it.

    `run_dir`: a folder that is no run yet; default: a new one in traces/runs of a checkout, else in the
    user's data folder. `record_tokens`: token ids enter the trace. Raises TraceError if the folder is a run.
    """
    folder = new_run_folder() if run_dir is None else Path(run_dir).resolve()
    if (folder / RUN_FILE).exists():
        raise TraceError(f"{folder} is a run already: name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    info = RunInfo.new(tokens_recorded=record_tokens)
    info.save(folder)
    handle = RunHandle(
        run_dir=str(folder),
        run_id=info.run_id,
        level=level,
        record_tokens=record_tokens,
        epoch_offset_ns=info.epoch_offset_ns,
        hash_key=secrets.token_hex(32),
    )
    return Recording(handle)


def attach(handle: RunHandle, role: str, *, engine_id: int | None = None) -> Recorder:
    """A recorder for this process in a role: `core`, `api`, or `worker` with the engine_id of its core.

    Whoever asks closes it. Raises OSError if the run folder cannot be written.
    """
    sink = SpoolWriter(Path(handle.run_dir), handle.run_id, role)
    if role == "core":
        engine_id = sink.proc_id - PREFERRED_PROC["core"]  # 0; a restarted core is another engine
    return Recorder(
        sink,
        role=role,
        proc_id=sink.proc_id,
        engine_id=engine_id,
        level=Level(handle.level),
        record_tokens=handle.record_tokens,
        hash_key=bytes.fromhex(handle.hash_key),
        pid=os.getpid(),
    )
