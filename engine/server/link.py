"""The front end's end of the line to one engine: start its processes, shake hands, talk, notice a death.

    front end                                core process
    bind ipc://<private folder>/frontend
    spawn ─────────────────────────────────► load the model
        ◄──────────────────────────────────── Ready, or Failed with a message for the user
    Add, Abort ────────────────────────────► step
        ◄──────────────────────────────────── outputs, by way of the detokeniser process if there is one
    Shutdown ──────────────────────────────► close, exit

Processes are spawned, not forked: torch's threads and a fork do not go together. The socket's folder is
readable by its owner alone. A death is seen at once: the event loop watches each process's sentinel. A link
is for one life of an engine: when one of its processes dies, the link is over, and another one is made.

Source: vLLM 0.33 `vllm/v1/engine/core_client.py` (AsyncMPClient).
"""

import asyncio
import contextlib
import multiprocessing
import shutil
import tempfile
import time
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Self, cast

import zmq
import zmq.asyncio

from engine.config import EngineConfig
from engine.errors import CutawayError
from engine.messages import (
    Failed,
    FromEngine,
    OpenText,
    Ready,
    Shutdown,
    StartPhase,
    TextReady,
    ToCore,
)
from engine.server import core_process, detokenizer_process
from engine.server.address import FOLDER_PREFIX
from engine.server.core_process import Addresses, MakeRecorder, run_core
from engine.server.detokenizer_process import run_detokenizer
from engine.server.wire import decode, encode
from tracing.record import NULL

STOP_S = 10.0
"""How long an engine may take to end before it is killed."""
LAST_WORDS_S = 0.2
"""How long after a death to wait for messages that had been sent."""
FIRST_WORDS_S = 2.0
"""The same while it starts: then the last message says why it cannot, and nobody waits for anything else."""
MAX_SOCKET_PATH = 100
"""A Unix socket's path has 107 bytes on Linux, 103 on macOS."""


class CoreError(CutawayError):
    """The engine core could not start, or it is gone."""


class CoreLink:
    """The running processes of an engine and the socket to them. Made by `start`, to be ended by `stop`."""

    def __init__(
        self,
        config: EngineConfig,
        make_recorder: MakeRecorder | None,
        detokenizer_model: str | None,
    ) -> None:
        folder = _private_folder()
        self._folder = folder
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.set_hwm(0)
        text_address = None if detokenizer_model is None else f"ipc://{folder}/text"
        addresses = Addresses(f"ipc://{folder}/frontend", text_address)
        self._socket.bind(addresses.frontend)
        self._dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready: Ready | None = None
        self._spawned_ns = 0
        spawn = multiprocessing.get_context("spawn").Process
        core_args = (config, addresses, make_recorder)
        self._core = spawn(target=run_core, args=core_args, name="cutaway-core")
        self._first_dead = self._core
        """Of its processes, once one has died: the others are ended by us."""
        self._processes = [self._core]
        if detokenizer_model is not None:
            text_args = (detokenizer_model, addresses)
            text = spawn(target=run_detokenizer, args=text_args, name="cutaway-detokenizer")
            self._processes.append(text)

    @classmethod
    async def start(
        cls,
        config: EngineConfig,
        make_recorder: MakeRecorder | None,
        detokenizer_model: str | None = None,
    ) -> Self:
        """Start an engine and wait until its model is loaded.

        `detokenizer_model`: folder of the tokenizer for a detokeniser process; None: the front end
        detokenises. Raises CoreError with the reason if it cannot start.
        """
        link = cls(config, make_recorder, detokenizer_model)
        try:
            await link._start()
        except BaseException:  # cancelled as well: leave no process behind
            await link.stop()
            raise
        return link

    @property
    def phases(self) -> tuple[StartPhase, ...]:
        """The parts of the start; importing torch is most of the first one."""
        first = StartPhase("start process", self._spawned_ns, self.ready.phases[0].start_ns)
        return (first, *self.ready.phases)

    @property
    def ready(self) -> Ready:
        """What the core said of itself."""
        assert self._ready is not None
        return self._ready

    @property
    def pid(self) -> int:
        """Process id of the core."""
        assert self._core.pid is not None
        return self._core.pid

    @property
    def exit_signal(self) -> int:
        """The signal that ended the process that died first; 0: none."""
        return max(0, -(self._first_dead.exitcode or 0))

    @property
    def dead_proc_id(self) -> int:
        """Its number in the trace; NULL: the detokeniser, which has none."""
        return self.ready.proc_id or NULL if self._first_dead is self._core else NULL

    def send(self, message: ToCore) -> None:
        """Send to the core without waiting; to a dead one it goes nowhere."""
        self._send(core_process.IDENTITY, message)

    def send_text(self, message: OpenText) -> None:
        """Send to the detokeniser."""
        self._send(detokenizer_process.IDENTITY, message)

    async def receive(self) -> FromEngine:
        """The next message. Raises CoreError once a process is dead and its last message was read."""
        receiving: asyncio.Future[list[bytes]] = asyncio.ensure_future(
            self._socket.recv_multipart()
        )
        both: set[asyncio.Future[Any]] = {receiving, self._dead}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                patience_s = FIRST_WORDS_S if self._ready is None else LAST_WORDS_S
                await asyncio.wait({receiving}, timeout=patience_s)
            if receiving.done():
                _, *frames = receiving.result()
                return cast(FromEngine, decode(frames))
        finally:
            receiving.cancel()
        raise CoreError(
            f"the engine {self._first_dead.name.removeprefix('cutaway-')} died ({self._how_it_ended()})"
        )

    async def stop(self, patience_s: float = STOP_S) -> None:
        """End the engine, kindly if it lets itself be asked, and clean up. Safe to call twice."""
        started = [process for process in self._processes if process.pid is not None]
        if started:
            self.send(Shutdown())
            self._send(detokenizer_process.IDENTITY, Shutdown())
            if self._ready is None or self._dead.done():
                for process in started:
                    process.terminate()  # still loading, or half of it is gone: it reads no messages
            deadline = time.monotonic() + patience_s
            for process in started:
                await asyncio.to_thread(process.join, max(0.0, deadline - time.monotonic()))
                if process.exitcode is None:
                    process.kill()
                    await asyncio.to_thread(process.join, STOP_S)
        self._context.destroy(linger=0)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _send(self, identity: bytes, message: ToCore | OpenText) -> None:
        if not self._dead.done():
            # No high-water mark: the future is done when the call returns.
            self._socket.send_multipart([identity, *encode(message)])

    async def _start(self) -> None:
        self._spawned_ns = time.perf_counter_ns()
        loop = asyncio.get_running_loop()
        for process in self._processes:
            process.start()
            loop.add_reader(process.sentinel, self._on_exit, loop, process)
        for _ in self._processes:  # each says that it is there
            match await self.receive():
                case Ready() as ready:
                    self._ready = ready
                case TextReady():
                    pass
                case Failed(message):
                    raise CoreError(message)
                case other:
                    raise AssertionError(f"{other} before the engine was ready")

    def _on_exit(self, loop: asyncio.AbstractEventLoop, process: SpawnProcess) -> None:
        loop.remove_reader(process.sentinel)
        if not self._dead.done():
            self._first_dead = process
            self._dead.set_result(None)

    def _how_it_ended(self) -> str:
        if self.exit_signal:
            return f"signal {self.exit_signal}"
        return f"exit code {self._first_dead.exitcode}"


def _private_folder() -> Path:
    """A folder for the socket that only this user can enter."""
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
    if len(str(folder)) > MAX_SOCKET_PATH - len("/frontend"):
        with contextlib.suppress(OSError):
            folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir="/tmp"))
    return folder
