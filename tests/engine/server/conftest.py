"""A real server: its API on a thread of the test process, its core in a process of its own."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import httpx
import openai
import pytest

from engine.config import EngineConfig
from engine.messages import Ready
from engine.server.address import listen
from engine.server.run import StopSignal, run
from engine.server.settings import ServerSettings
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
    settings: ServerSettings = field(default_factory=ServerSettings)
    url: str = ""
    core_pid: int = 0
    ready: Ready | None = None
    num_starts: int = 0
    """How many cores have been ready."""
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
            given = (self.trace, self.make_recorder, self._stop, self._on_ready)
            await run(listener, self.config, self.settings, *given)

    def _on_ready(self, url: str, ready: Ready, core_pid: int) -> None:
        self.url, self.core_pid, self.ready = url, core_pid, ready
        self.num_starts += 1
        self._ready.set()


StartServer = Callable[..., Server]


@contextmanager
def servers(chat_model: Path, folder: Path) -> Iterator[StartServer]:
    """A function (recording, settings, **config) -> a server on a free port; all are stopped at the end.

    Without a recording, facts stay in memory (`server.trace`) and in a file (`server.core_records`).
    """

    def start(
        recording: Recording | None = None,
        settings: ServerSettings | None = None,
        **changes: Any,
    ) -> Server:
        defaults = {
            "model": str(chat_model),
            "dtype": "float32",
            "num_blocks": 2049,
            "block_size": 8,
            "max_model_len": 16384,
        }
        config = EngineConfig(**(defaults | changes))
        if recording is None:
            spool = folder / f"{next(numbers)}.spool"
            server = Server(config, partial(make_file_recorder, spool), MemoryTrace())
        else:
            server = Server(config, partial(attach, recording.handle, "core"), recording)
        server.settings = settings or ServerSettings()
        server.start()
        running.callback(server.stop)
        return server

    numbers = count()
    with ExitStack() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")  # the model is tiny, and tests run side by side
        yield start


@pytest.fixture(scope="module")
def start_server(
    chat_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartServer]:
    """Starts servers that live as long as the tests of a module."""
    with servers(chat_model, tmp_path_factory.mktemp("spools")) as start:
        yield start


@pytest.fixture(scope="session")
def server(chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server with `--dev` for all tests that leave it whole."""
    with servers(chat_model, tmp_path_factory.mktemp("spool")) as start:
        yield start(settings=ServerSettings(dev=True))


def post(server: Server, path: str, body: object, **headers: str) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body, headers=headers, timeout=60)


Found = TypeVar("Found")


def wait_for(found: Callable[[], Found], what: str) -> Found:
    """Poll a fact that another thread or process writes."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what} did not happen")


def end_of(server: Server, answer_id: str) -> dict[str, Any]:
    """The end that was written down for an answer, by its id or a part of it."""

    def find() -> dict[str, Any] | None:
        for asked in server.trace.records(Kind.REQUEST):
            if answer_id in json.loads(asked["text"])["external_id"]:
                for end in server.trace.records(Kind.REQUEST_END):
                    if end["request_id"] == asked["request_id"]:
                        return end
        return None

    found = wait_for(find, f"the end of {answer_id}")
    assert found is not None
    return found


def assert_everything_is_free(server: Server) -> None:
    """One more request runs alone; after it no block is used."""
    post(server, "/v1/completions", {"prompt": "x", "max_tokens": 1})
    last = wait_for(lambda: server.core_records(Kind.STEP)[-1:], "a step")[0]
    assert (last["num_running"], last["num_waiting"], last["used_blocks"]) == (0, 0, 0)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(*pids: int) -> None:
    for pid in pids:
        wait_for(lambda pid=pid: not is_alive(pid), f"the end of process {pid}")
