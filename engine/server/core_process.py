"""The engine core in a process of its own: a loop that reads messages, steps, and sends what came out.

    busy    look for messages without waiting ─► step ─► send outputs ─► again
    idle    one turn without work, then sleep on the socket until a message comes

It is alone with the GPU or the cores, so tokenising and HTTP never delay a step. It ends when told, and by
itself when its parent is gone: the sentinel of the parent process is one more thing that the idle loop sleeps
on, so no engine is ever left behind holding memory.

Invariant: whatever ends it, its recorder is closed, unless it is killed outright.

Source: vLLM 0.33 `vllm/v1/engine/core.py` (EngineCoreProc.run_busy_loop).
"""

import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import zmq

from engine.config import EngineConfig
from engine.core import EngineCore
from engine.errors import CutawayError
from engine.messages import (
    Abort,
    Add,
    CacheReset,
    Failed,
    ResetCache,
    SetLevel,
    Shutdown,
    Stats,
    Steer,
    StepOutputs,
)
from engine.server.address import FOLDER_PREFIX
from engine.server.logs import LOGGER, set_up_logging
from engine.server.wire import decode, encode
from tracing.record import NO_RECORDER, Code, Level, Recorder

MakeRecorder = Callable[[], Recorder]
"""Makes the core's recorder in the core's process; must be picklable."""
IDENTITY = b"core"
"""Its name on the front end's socket."""
ANCHOR_S = 60
"""How often the recorder pairs its clock with wall time."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the processes of one engine meet; both lie in one private folder."""

    frontend: str
    """The front end listens here; core and detokeniser connect."""
    detokenizer: str | None
    """The detokeniser listens here for the core's outputs; None: they go to the front end."""

    @property
    def folder(self) -> Path:
        """The private folder."""
        return Path(self.frontend.removeprefix("ipc://")).parent


class Line:
    """The core's sockets: one to the front end, perhaps one to a detokeniser. It never waits for either."""

    def __init__(self, addresses: Addresses) -> None:
        self.context = zmq.Context()
        self.socket = connect(self.context, addresses.frontend, IDENTITY)
        self._outputs = self.socket
        if addresses.detokenizer is not None:
            self._outputs = connect(self.context, addresses.detokenizer, IDENTITY)
        self._sent: Stats | None = None

    def send_step(self, outputs: StepOutputs) -> None:
        """Send what a step brought, if it brought or changed anything."""
        if outputs.outputs or outputs.stats != self._sent:
            self._outputs.send_multipart(encode(outputs))
            self._sent = outputs.stats


def run_core(
    config: EngineConfig, addresses: Addresses, make_recorder: MakeRecorder | None
) -> None:
    """Main function of the process. Reports Ready or Failed to the front end, then serves until told."""
    obey_parent_only()
    is_loaded = threading.Event()
    threading.Thread(target=_follow_parent, args=(is_loaded,), daemon=True).start()
    recorder = NO_RECORDER if make_recorder is None else make_recorder()
    line = Line(addresses)
    try:
        # torch is loaded here and never in the front end's process.
        from engine.build import build_core

        core, ready = build_core(config, recorder)
        is_loaded.set()
        try:
            line.socket.send_multipart(encode(ready))
            _serve(core, line, recorder)
        finally:
            core.close()
    except Exception as error:
        message = str(error)
        if not isinstance(error, CutawayError):  # a bug: where it is, is for the log alone
            LOGGER.exception("the engine core failed")
            message = f"{type(error).__name__}, see the server's log"
        line.socket.send_multipart(encode(Failed(message)))
        sys.exit(1)
    finally:
        signal.signal(
            signal.SIGTERM, signal.SIG_IGN
        )  # it is ending already, and should do so in order
        recorder.close()
        leave(line.context, addresses)


def obey_parent_only() -> None:
    """Ctrl-C goes to the whole group of processes, and the parent decides what it means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that `finally` blocks run
    set_up_logging()


def _follow_parent(is_loaded: threading.Event) -> None:
    """While a model is loaded nobody looks at the parent, and that can take minutes."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "the core runs as a child of the server"
    parent.join()
    if not is_loaded.is_set():
        os.kill(os.getpid(), signal.SIGTERM)


def connect(
    context: zmq.Context[zmq.Socket[bytes]], address: str, identity: bytes
) -> zmq.Socket[bytes]:
    """A socket that queues without limit: the engine never waits for a slow front end."""
    socket = context.socket(zmq.DEALER)
    socket.set_hwm(0)
    socket.identity = identity
    socket.connect(address)
    return socket


def leave(context: zmq.Context[zmq.Socket[bytes]], addresses: Addresses) -> None:
    """Let the last message go out; if the parent is gone, nobody else is left to remove the folder."""
    context.destroy(linger=1000)
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        shutil.rmtree(addresses.folder, ignore_errors=True)
        around = addresses.folder.parent
        if around.name.startswith(FOLDER_PREFIX):  # the supervisor's, if that is gone as well
            with suppress(OSError):
                around.rmdir()


def _serve(core: EngineCore, line: Line, recorder: Recorder) -> None:
    """The busy loop; returns when it is told to end, or when the parent has died."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "the core runs as a child of the server"
    poller = zmq.Poller()
    poller.register(line.socket, zmq.POLLIN)
    poller.register(parent.sentinel, zmq.POLLIN)
    next_anchor = time.monotonic() + ANCHOR_S
    while True:
        if not core.has_work:
            core.step()  # an idle turn: the trace gets what is left, and sglang's ratio starts afresh
        events = dict(poller.poll(0 if core.has_work else ANCHOR_S * 1000))
        if parent.sentinel in events:
            return
        if line.socket in events and not _take_messages(core, line, recorder):
            return
        if core.has_work:
            outputs = core.step()
            line.send_step(StepOutputs(outputs, core.stats))
        if time.monotonic() >= next_anchor:
            recorder.clock_anchor()
            next_anchor += ANCHOR_S


def _take_messages(core: EngineCore, line: Line, recorder: Recorder) -> bool:
    """Act on every message that has arrived; False: told to end."""
    while True:
        try:
            frames = line.socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return True
        match decode(frames):
            case Add(request):
                core.add(request)
            case Abort(request_id, code, a0):
                core.abort(request_id, Code(code), a0)
            case SetLevel(level):
                recorder.set_level(Level(level))
                recorder.flush()
            case ResetCache():
                line.socket.send_multipart(encode(CacheReset(core.reset_cache())))
            case Steer() as steer:
                line.socket.send_multipart(encode(core.control.act(steer)))
            case Shutdown():
                return False
            case other:
                raise AssertionError(f"{other} is not for the core")
