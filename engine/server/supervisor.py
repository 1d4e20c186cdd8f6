"""The process above all others: it owns the port, starts the API, and starts it again when it dies.

    supervisor ─┬─ API process ─┬─ engine core      the API looks after its core (`client`)
      owns the  │               └─ detokeniser
      port      └─ recorder                          looked after by `tick`

It loads neither torch nor HTTP and serves nobody, so there is little in it that could fail. The listening
socket is its own: while a dead API is replaced, clients that connect wait in the kernel's queue instead of
being refused. When the supervisor itself is killed, the API sees it and ends, and so does everything below.

Invariant: whenever `run` returns or raises, no API process is left.
Source: process roles of `cutaway serve`; one-for-one supervision as in Erlang/OTP.
"""

import asyncio
import multiprocessing
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from engine.config import EngineConfig
from engine.errors import CutawayError
from engine.messages import Ready
from engine.server.address import FOLDER_PREFIX
from engine.server.restarts import Restarts
from engine.server.settings import ServerSettings
from tracing.record import NO_RECORDER, NULL, Code, Recorder, Trace

if TYPE_CHECKING:  # sockets, messages and HTTP only in the processes that need them
    from engine.server.core_process import MakeRecorder

TICK_S = 0.5
NAP_S = 0.05
STOP_MARGIN_S = 15.0
"""Beyond the drain time: what an API may take to stop its core, before it is killed."""
HURRY_MARGIN_S = 5.0
"""The same when it was asked twice."""


class OpenTrace(Trace, Protocol):
    """A trace that a process joins and leaves."""

    def leave(self) -> None:
        """Say goodbye."""


class ServerError(CutawayError):
    """The API process could not be kept alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSpec:
    """What an API process is made of; travels there by pickle."""

    config: EngineConfig
    settings: ServerSettings
    make_trace: Callable[[], OpenTrace] | None = None
    make_core_recorder: "MakeRecorder | None" = None
    on_orphan: Callable[[], None] | None = None
    """Called in the API process when the supervisor was killed: what it can no longer clean up."""


@dataclass(frozen=True, slots=True)
class ApiStarted:
    """API -> supervisor: its number in the trace."""

    proc_id: int


@dataclass(frozen=True, slots=True)
class EngineReady:
    """API -> supervisor: a core is ready; again for each life of one."""

    url: str
    ready: Ready
    core_pid: int
    api_pid: int


@dataclass(frozen=True, slots=True)
class ApiFailed:
    """API -> supervisor: it ends for a reason that a new start would not change."""

    message: str


class Supervisor:
    """Runs one API process after the other, until told to stop."""

    def __init__(
        self,
        spec: ApiSpec,
        listener: socket.socket,
        *,
        on_ready: Callable[[EngineReady], None],
        recorder: Recorder = NO_RECORDER,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        """`tick` is called about each half second, for whatever else has to be kept alive."""
        self._spec, self._listener = spec, listener
        self._on_ready, self._recorder, self._tick = on_ready, recorder, tick
        self._api: SpawnProcess | None = None
        self._api_proc_id = NULL
        self._failure: str | None = None
        """Why the API process said that it cannot go on."""
        self._kill_at = float("inf")
        self._num_asked = 0
        """How often it was told to stop."""

    def run(self) -> None:
        """Serve until SIGTERM or Ctrl-C. Raises ServerError with the reason if that cannot be done."""
        restarts = Restarts()
        with self._signals():
            while not self._is_stopping():
                self._run_api(restarts.num_restarts)
                if self._failure is not None:
                    raise ServerError(self._failure)
                if self._is_stopping():
                    return
                delay_s = restarts.next_delay()
                if delay_s is None:
                    raise ServerError(
                        f"the API process died {restarts.num_restarts + 1} times in a row: giving up"
                    )
                self._wait(delay_s)

    # -- inside --------------------------------------------------------------------------------------

    def _is_stopping(self) -> bool:
        """Asked anew each time: a signal may have come in between."""
        return self._num_asked > 0

    def _wait(self, delay_s: float) -> None:
        """Sleep before a new start, but not through a wish to stop."""
        until = time.monotonic() + delay_s
        while time.monotonic() < until and not self._is_stopping():
            time.sleep(min(delay_s, NAP_S))
            self._tick()

    def _run_api(self, attempt: int) -> None:
        """One life of an API process, and of what lies in its private folder, however it ends."""
        with TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True) as folder:
            self._run_api_in(folder, attempt)

    def _run_api_in(self, folder: str, attempt: int) -> None:
        status, theirs = multiprocessing.Pipe(duplex=False)
        self._api_proc_id = NULL
        api = multiprocessing.get_context("spawn").Process(
            target=run_api, args=(self._spec, self._listener, theirs, folder), name="cutaway-api"
        )
        with status:
            try:
                api.start()
                self._api = api
                if self._is_stopping():  # it was asked before there was somebody to ask
                    api.terminate()
                theirs.close()  # so that its end is seen here
                self._watch(api, status, attempt)
            finally:
                self._api = None
                if api.pid is not None and api.exitcode is None:
                    api.kill()
                api.join()
        if not self._is_stopping() and self._failure is None:
            self._record(Code.PROC_DIED, self._api_proc_id, max(0, -(api.exitcode or 0)))

    def _watch(self, api: SpawnProcess, status: Connection, attempt: int) -> None:
        """Returns when the API process has ended; kills it if it does not end in time."""
        while True:
            ready = wait([api.sentinel, status], timeout=TICK_S)
            while status in ready:
                try:
                    message = status.recv()
                except (EOFError, OSError):
                    break
                self._hear(message, attempt)
                ready = wait([status], timeout=0)
            if api.exitcode is not None:
                return
            if time.monotonic() > self._kill_at:
                api.kill()
            self._tick()

    def _hear(self, message: object, attempt: int) -> None:
        match message:
            case ApiStarted(proc_id):
                self._api_proc_id = proc_id
                if attempt:
                    self._record(Code.PROC_STARTED, proc_id, attempt)
            case EngineReady():
                self._on_ready(message)
            case ApiFailed(text):
                self._failure = text

    def _record(self, code: Code, *args: int) -> None:
        self._recorder.event(code, *args)
        self._recorder.flush()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Pass the wish on: once, drain; twice, now."""
        self._num_asked += 1
        margin_s = self._spec.settings.drain_timeout_s + STOP_MARGIN_S
        self._kill_at = time.monotonic() + (HURRY_MARGIN_S if self._num_asked > 1 else margin_s)
        if self._api is not None:
            self._api.terminate()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(number, self._stop) for number in numbers]
        try:
            yield
        finally:
            for number, handler in zip(numbers, before, strict=True):
                signal.signal(number, handler)


def run_api(spec: ApiSpec, listener: socket.socket, status: Connection, folder: str) -> None:
    """Main function of an API process: serve until SIGTERM, or until the supervisor is gone.

    Sockets and whatever else is temporary lie below `folder`, which the supervisor removes.
    """
    tempfile.tempdir = folder
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the supervisor, which says what it means
    trace = None if spec.make_trace is None else spec.make_trace()
    try:
        if trace is not None:
            status.send(ApiStarted(trace.recorder("api").proc_id))
        asyncio.run(_serve(spec, listener, status, trace))
    except CutawayError as error:
        status.send(ApiFailed(str(error)))
        sys.exit(1)
    finally:
        if trace is not None:
            trace.leave()
        supervisor = multiprocessing.parent_process()
        if supervisor is not None and not supervisor.is_alive():
            shutil.rmtree(folder, ignore_errors=True)


async def _serve(
    spec: ApiSpec, listener: socket.socket, status: Connection, trace: Trace | None
) -> None:
    from engine.server.run import StopSignal, run

    loop, stop = asyncio.get_running_loop(), StopSignal()
    parent = multiprocessing.parent_process()
    assert parent is not None, "the API runs as a child of the supervisor"

    def on_orphaned() -> None:
        loop.remove_reader(parent.sentinel)
        stop.ask()
        stop.ask()
        if spec.on_orphan is not None:
            spec.on_orphan()

    def on_ready(url: str, ready: Ready, core_pid: int) -> None:
        api_pid = multiprocessing.current_process().pid
        assert api_pid is not None
        status.send(EngineReady(url, ready, core_pid, api_pid))

    loop.add_signal_handler(signal.SIGTERM, stop.ask)
    loop.add_reader(parent.sentinel, on_orphaned)
    await run(
        *(listener, spec.config, spec.settings, trace),
        make_core_recorder=spec.make_core_recorder,
        stop=stop,
        on_ready=on_ready,
    )
