"""A real server: its API on a thread of the test process, its core in a process of its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest

from engine.config import EngineConfig
from engine.messages import Ready
from engine.server.run import StopSignal, listen, run
from tests.engine.recorded import MemoryTrace, make_file_recorder, parse_records
from tracing import Recording, attach
from tracing.record import Kind, Recorder

MODEL = "tiny-chat"


@dataclass
class Server:
    """A server that runs until it is stopped."""

    config: EngineConfig
    make_recorder: Callable[[], Recorder]
    """Called in the core's process."""
    trace: Any
    """A MemoryTrace, or what `tracing.start` gives."""
    url: str = ""
    core_pid: int = 0
    error: BaseException | None = None

    def start(self) -> None:
        """Returns when it serves. Raises what kept it from it."""
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name="server")
        self._thread.start()
        self._ready.wait()
        if self.error is not None:
            self._thread.join()
            raise self.error

    def ask_to_stop(self) -> None:
        with suppress(RuntimeError):  # it has ended already, and its loop with it
            self._loop.call_soon_threadsafe(self._stop.ask)

    def stop(self) -> None:
        """End it at once."""
        self.ask_to_stop()
        self.ask_to_stop()
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def client(self, **options: Any) -> openai.OpenAI:
        """OpenAI's own client."""
        return openai.OpenAI(
            base_url=f"{self.url}/v1", api_key="unused", max_retries=0, timeout=60, **options
        )

    def core_records(self, kind: Kind) -> list[dict[str, Any]]:
        """What the core has recorded so far, if it records to a file."""
        assert isinstance(self.make_recorder, partial)
        return parse_records(self.make_recorder.args[0].read_bytes(), kind)

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # handed to the thread that waits
            self.error = error
        self._ready.set()

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), StopSignal()
        with listen(port=0) as listener:
            await run(
                listener, self.config, self.trace, self.make_recorder, self._stop, self._on_ready
            )

    def _on_ready(self, url: str, ready: Ready, core_pid: int) -> None:
        self.url, self.core_pid = url, core_pid
        self._ready.set()


@pytest.fixture(scope="module")
def start_server(
    chat_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Server]]:
    """A function (recording, **config) -> a running server on a free port, stopped after the module.

    Without a recording, facts stay in memory (`server.trace`) and in a file (`server.core_records`).
    """

    def start(recording: Recording | None = None, **changes: Any) -> Server:
        settings = {
            "model": str(chat_model),
            "dtype": "float32",
            "num_blocks": 2049,
            "block_size": 8,
            "max_model_len": 16384,
            **changes,
        }
        config = EngineConfig(**settings)
        if recording is None:
            spool = tmp_path_factory.mktemp("spool") / "core.spool"
            server = Server(config, partial(make_file_recorder, spool), MemoryTrace())
        else:
            server = Server(config, partial(attach, recording.handle, "core"), recording)
        server.start()
        running.callback(server.stop)
        return server

    with ExitStack() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # the model is tiny, and tests run side by side
        yield start


@pytest.fixture(scope="module")
def server(start_server: Callable[..., Server]) -> Server:
    """One server for the tests of a module that leave it whole."""
    return start_server()
