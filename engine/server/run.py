"""The server's life: listen, start the core, serve, drain, stop. Nothing is left behind.

    claim the port ─► start the core, load the model ─► serve
    first SIGTERM or Ctrl-C: take nothing new, let open requests finish for DRAIN_S, then abort them
    second one: abort them now
    stop the core, then return

The port is claimed before the model is loaded, so that a taken one is a matter of milliseconds.

Source: uvicorn 0.54 `server.py`; shutdown of vLLM 0.33 `vllm/entrypoints/launcher.py`.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import uvicorn

from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.frontend import Frontend, served_name
from engine.messages import Ready
from engine.server.api import make_app
from engine.server.client import CoreClient
from engine.server.core_process import MakeRecorder
from engine.server.link import CoreLink
from engine.telemetry import Telemetry
from engine.text.tokenizer import Tokenizer
from tracing.record import Trace

DRAIN_S = 5.0
"""How long open requests may go on after the first signal."""
ANCHOR_S = 60.0
"""How often the recorder pairs its clock with wall time."""

OnReady = Callable[[str, Ready, int], None]
"""Called with the server's URL, what the core said, and the core's process id."""
Result = TypeVar("Result")


class StopSignal:
    """Asks a server to end; asked twice, it hurries."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()

    def ask(self) -> None:
        """Once: drain, then end. Again: end now."""
        (self.hurry if self.stop.is_set() else self.stop).set()


def listen(host: str = "127.0.0.1", port: int = 8000) -> socket.socket:
    """Claim a port; 0 takes a free one. Raises ConfigError if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port} ({error.strerror}): choose another port, or 0 for a free one"
        ) from error
    return listener


def serve(
    config: EngineConfig,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    trace: Trace | None = None,
    make_core_recorder: MakeRecorder | None = None,
    on_ready: OnReady | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    `trace` records this process; `make_core_recorder` (picklable) makes the core's recorder in its process.
    Raises ConfigError if the port is taken, CoreError with the reason if the core cannot start.
    """

    async def main() -> None:
        stop = StopSignal()
        with _signals(stop):
            await run(listener, config, trace, make_core_recorder, stop, on_ready)

    with listen(host, port) as listener:
        asyncio.run(main())


async def run(
    listener: socket.socket,
    config: EngineConfig,
    trace: Trace | None,
    make_core_recorder: MakeRecorder | None,
    stop: StopSignal,
    on_ready: OnReady | None,
) -> None:
    """The server inside a running event loop. Raises as `serve`."""
    link = await _unless(stop.stop, CoreLink.start(config, make_core_recorder))
    if link is None:
        return  # told to end while the model was loading
    try:
        model_name = served_name(config.model)
        tokenizer = Tokenizer.load(Path(link.ready.model_dir))
        telemetry = Telemetry(trace, model_name)
        client = CoreClient(link, Frontend(tokenizer, link.ready.max_model_len, telemetry))
        server = _Server(
            uvicorn.Config(
                make_app(client, model_name),
                lifespan="off",
                log_level="warning",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=round(DRAIN_S),
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        anchoring = asyncio.create_task(_keep_time(telemetry))
        while not server.started and not serving.done():
            await asyncio.sleep(0.005)  # uvicorn has no event for it
        if on_ready is not None:
            on_ready(_url(listener), link.ready, link.pid)
        await _unless(stop.stop, asyncio.shield(serving))
        await client.drain(DRAIN_S, stop.hurry)
        server.should_exit = True
        await serving
        anchoring.cancel()
        await client.close()
        telemetry.recorder.flush()
    finally:
        await link.stop()


class _Server(uvicorn.Server):
    """uvicorn, without its signal handlers: it would not know of the core."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `serve`."""
        yield


@contextlib.contextmanager
def _signals(stop: StopSignal) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.ask)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _unless(event: asyncio.Event, work: Awaitable[Result]) -> Result | None:
    """The result of `work`, or None if the event came first; then `work` is cancelled."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        return None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.wait({working, stopping})


async def _keep_time(telemetry: Telemetry) -> None:
    while True:
        await asyncio.sleep(ANCHOR_S)
        telemetry.recorder.clock_anchor()
        telemetry.recorder.flush()


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
