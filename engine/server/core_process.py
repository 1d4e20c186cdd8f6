"""The engine core in a process of its own: a loop that reads messages, steps, and sends what came out.

    busy    look for messages without waiting ─► step ─► send outputs ─► again
    idle    give the recorder what is left, sleep on the socket until a message comes

It is alone with the GPU or the cores, so tokenising and HTTP never delay a step. It ends when told, and by
itself when its parent is gone: the sentinel of the parent process is one more thing that the idle loop sleeps
on, so no engine is ever left behind holding memory.

Invariant: whatever ends it, its recorder is closed, unless it is killed outright.

Source: vLLM 0.33 `vllm/v1/engine/core.py` (EngineCoreProc.run_busy_loop).
"""

import multiprocessing
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import zmq

from engine.config import EngineConfig
from engine.core import EngineCore
from engine.errors import CutawayError
from engine.messages import Abort, Add, Failed, SetLevel, Shutdown
from engine.server.wire import decode_to_core, encode_from_core
from tracing.record import NO_RECORDER, Code, Level, Recorder

MakeRecorder = Callable[[], Recorder]
"""Makes the core's recorder in the core's process; must be picklable."""
ANCHOR_S = 60
"""How often the recorder pairs its clock with wall time."""


def run_core(config: EngineConfig, address: str, make_recorder: MakeRecorder | None) -> None:
    """Main function of the process. Reports Ready or Failed to `address`, then serves until told to end."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C goes to the whole group; the parent decides
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that `finally` below runs
    recorder = NO_RECORDER if make_recorder is None else make_recorder()
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    socket.set_hwm(0)  # the engine never waits for a slow front end
    socket.connect(address)
    try:
        # torch is loaded here and never in the front end's process.
        from engine.build import build_core

        core, ready = build_core(config, recorder)
        try:
            socket.send_multipart(encode_from_core(ready))
            _serve(core, socket, recorder)
        finally:
            core.close()
    except Exception as error:
        message = str(error)
        if not isinstance(error, CutawayError):  # a bug: say where
            traceback.print_exc()
            message = f"{type(error).__name__}: {error}"
        socket.send_multipart(encode_from_core(Failed(message)))
        sys.exit(1)
    finally:
        recorder.close()
        context.destroy(linger=1000)  # ms for the last message to leave
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():  # nobody else is left to do it
            shutil.rmtree(Path(address.removeprefix("ipc://")).parent, ignore_errors=True)


def _serve(core: EngineCore, socket: "zmq.Socket[bytes]", recorder: Recorder) -> None:
    """The busy loop; returns when it is told to end, or when the parent has died."""
    parent = multiprocessing.parent_process()
    assert parent is not None, "the core runs as a child of the server"
    poller = zmq.Poller()
    poller.register(socket, zmq.POLLIN)
    poller.register(parent.sentinel, zmq.POLLIN)
    next_anchor = time.monotonic() + ANCHOR_S
    while True:
        if not core.has_work:
            recorder.flush()
        events = dict(poller.poll(0 if core.has_work else ANCHOR_S * 1000))
        if parent.sentinel in events:
            return
        if socket in events and not _take_messages(core, socket, recorder):
            return
        if core.has_work:
            outputs = core.step()
            if outputs:
                socket.send_multipart(encode_from_core(outputs))
        if time.monotonic() >= next_anchor:
            recorder.clock_anchor()
            next_anchor += ANCHOR_S


def _take_messages(core: EngineCore, socket: "zmq.Socket[bytes]", recorder: Recorder) -> bool:
    """Act on every message that has arrived; False: told to end."""
    while True:
        try:
            frames = socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return True
        match decode_to_core(frames):
            case Add(request):
                core.add(request)
            case Abort(request_id, code, a0):
                core.abort(request_id, Code(code), a0)
            case SetLevel(level):
                recorder.set_level(Level(level))
            case Shutdown():
                return False
