"""The front end's end of the line to the engine core: start its process, shake hands, talk, notice its death.

    front end                                core process
    bind ipc://<private folder>/core
    spawn ─────────────────────────────────► load the model
        ◄──────────────────────────────────── Ready, or Failed with a message for the user
    Add, Abort ────────────────────────────► step
        ◄──────────────────────────────────── outputs
    Shutdown ──────────────────────────────► close, exit

The process is spawned, not forked: torch's threads and a fork do not go together. The socket's folder is
readable by its owner alone. A death is seen at once: the event loop watches the process's sentinel.

Source: vLLM 0.33 `vllm/v1/engine/core_client.py` (AsyncMPClient).
"""

import asyncio
import multiprocessing
import shutil
import tempfile
from pathlib import Path
from typing import Any, Self

import zmq
import zmq.asyncio

from engine.config import EngineConfig
from engine.errors import CutawayError
from engine.messages import Failed, FromCore, Ready, Shutdown, ToCore
from engine.server.core_process import MakeRecorder, run_core
from engine.server.wire import decode_from_core, encode_to_core

STOP_S = 10.0
"""How long a core may take to end before it is killed."""
LAST_WORDS_S = 0.2
"""How long after a core's death to wait for messages that it had sent."""
MAX_SOCKET_PATH = 100
"""A Unix socket's path has 107 bytes on Linux, 103 on macOS."""


class CoreError(CutawayError):
    """The engine core could not start, or it is gone."""


class CoreLink:
    """A running core process and the socket to it. Made by `start`, to be ended by `stop`."""

    def __init__(self, config: EngineConfig, make_recorder: MakeRecorder | None) -> None:
        self._folder = _private_folder()
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.set_hwm(0)
        self._address = f"ipc://{self._folder}/core"
        self._socket.bind(self._address)
        self._dead: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ready: Ready | None = None
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_core, args=(config, self._address, make_recorder), name="cutaway-core"
        )

    @classmethod
    async def start(cls, config: EngineConfig, make_recorder: MakeRecorder | None) -> Self:
        """Start a core and wait until its model is loaded. Raises CoreError with the reason if it cannot."""
        link = cls(config, make_recorder)
        try:
            link._spawn()
            message = await link.receive()
        except BaseException:  # cancelled as well: leave no process behind
            await link.stop()
            raise
        if isinstance(message, Failed):
            await link.stop()
            raise CoreError(message.message)
        assert isinstance(message, Ready)
        link._ready = message
        return link

    @property
    def ready(self) -> Ready:
        """What the core said of itself."""
        assert self._ready is not None
        return self._ready

    @property
    def pid(self) -> int:
        """Process id of the core."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def exit_signal(self) -> int:
        """The signal that ended the core; 0: none."""
        return max(0, -(self._process.exitcode or 0))

    def send(self, message: ToCore) -> None:
        """Send without waiting; to a dead core it goes nowhere."""
        if not self._dead.done():
            # No high-water mark: the future is done when the call returns.
            self._socket.send_multipart(encode_to_core(message))

    async def receive(self) -> FromCore:
        """The next message. Raises CoreError once the core is dead and its last message was read."""
        receiving: asyncio.Future[list[bytes]] = asyncio.ensure_future(
            self._socket.recv_multipart()
        )
        both: set[asyncio.Future[Any]] = {receiving, self._dead}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                await asyncio.wait({receiving}, timeout=LAST_WORDS_S)
            if receiving.done():
                return decode_from_core(receiving.result())
        finally:
            receiving.cancel()
        raise CoreError(f"the engine core died ({self._how_it_ended()})")

    async def stop(self) -> None:
        """End the core, kindly if it lets itself be asked, and clean up. Safe to call twice."""
        if self._process.pid is not None:
            self.send(Shutdown())
            if self._ready is None:
                self._process.terminate()  # still loading: it reads no messages yet
            await asyncio.wait({self._dead}, timeout=STOP_S)
            if not self._dead.done():
                self._process.kill()
            self._process.join(STOP_S)
        self._context.destroy(linger=0)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _spawn(self) -> None:
        self._process.start()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._process.sentinel, self._on_exit, loop)

    def _on_exit(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self._process.sentinel)
        self._dead.set_result(None)

    def _how_it_ended(self) -> str:
        if self.exit_signal:
            return f"signal {self.exit_signal}"
        return f"exit code {self._process.exitcode}"


def _private_folder() -> Path:
    """A folder for the socket that only this user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="cutaway-"))
    if len(str(folder)) > MAX_SOCKET_PATH - len("/core"):
        folder.rmdir()
        folder = Path(tempfile.mkdtemp(prefix="cutaway-", dir="/tmp"))
    return folder
