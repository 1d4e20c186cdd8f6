"""The server's life: listen, answer, start the core, serve, drain, stop. Nothing is left behind.

    claim the port ─► answer (/health says "starting") ─► load the model ─► serve
    first SIGTERM or Ctrl-C: take nothing new, let open requests finish for --drain-timeout, then abort them
    second one: abort them now
    stop the core, then return

The port is claimed before anything is loaded, so that a taken one is a matter of milliseconds. A core that
dies is started again (`client`); when that does not help, the server ends with the reason.

Source: uvicorn 0.54 `server.py`; shutdown of vLLM 0.33 `vllm/entrypoints/launcher.py`.
"""

import asyncio
import contextlib
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

import uvicorn

from engine.config import EngineConfig
from engine.frontend import Frontend, served_name
from engine.generation_config import sampling_defaults
from engine.messages import Ready, StartPhase
from engine.model.hub import resolve_model
from engine.server.address import listen, url_of
from engine.server.app import make_app
from engine.server.client import CoreClient
from engine.server.core_process import MakeRecorder
from engine.server.link import STOP_S, CoreLink
from engine.server.logs import set_up_logging
from engine.server.metrics import Metrics
from engine.server.patience import PatientProtocol
from engine.server.settings import ServerSettings
from engine.telemetry import Telemetry
from engine.text.tokenizer import Tokenizer
from tracing.record import Trace

KEEP_ALIVE_S = 75
"""How long an idle connection is kept: longer than clients keep theirs (httpx: 5 s), or else one may send a
request on a connection that is being closed."""
ANCHOR_S = 60.0
"""How often the recorder pairs its clock with wall time."""
HURRY_S = 1.0
"""How long a core may take to end when it was asked twice."""

OnReady = Callable[[str, Ready, int], None]
"""Called with the server's URL, what the core said, and its process id: for each life of a core."""
Result = TypeVar("Result")


class StopSignal:
    """Asks a server to end; asked twice, it hurries."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.hurry = asyncio.Event()

    def ask(self) -> None:
        """Once: drain, then end. Again: end now."""
        (self.hurry if self.stop.is_set() else self.stop).set()


def serve(
    config: EngineConfig,
    settings: ServerSettings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    trace: Trace | None = None,
    make_core_recorder: MakeRecorder | None = None,
    on_ready: OnReady | None = None,
) -> None:
    """Serve from this process until SIGTERM or Ctrl-C.

    `trace` records this process; `make_core_recorder` (picklable) makes the core's recorder in its process.
    Raises ConfigError if the port is taken, CutawayError with the reason if the engine cannot start.
    """

    async def main() -> None:
        stop = StopSignal()
        with _signals(stop):
            own = settings or ServerSettings()
            await run(listener, config, own, trace, make_core_recorder, stop, on_ready)

    with listen(host, port) as listener:
        asyncio.run(main())


async def run(
    listener: socket.socket,
    config: EngineConfig,
    settings: ServerSettings,
    trace: Trace | None,
    make_core_recorder: MakeRecorder | None,
    stop: StopSignal,
    on_ready: OnReady | None,
) -> None:
    """The server inside a running event loop. Raises as `serve`."""
    set_up_logging()
    model_name = served_name(config.model)
    began_ns = time.perf_counter_ns()
    folder = await asyncio.to_thread(resolve_model, config.model)
    tokenizer = await asyncio.to_thread(Tokenizer.load, folder)
    defaults = sampling_defaults(folder) if settings.generation_config == "auto" else {}
    telemetry = Telemetry(trace, model_name)
    loaded = StartPhase("load tokenizer", began_ns, time.perf_counter_ns())
    telemetry.started("API", [loaded])
    in_process = settings.detokenizer == "process"
    frontend = Frontend(tokenizer, 0, telemetry, detokenises=not in_process)
    text_model = str(folder) if in_process else None
    client = CoreClient(
        partial(CoreLink.start, config, make_core_recorder, text_model),
        frontend,
        Metrics(model_name),
        partial(_say_ready, on_ready, url_of(listener)),
        has_detokenizer=in_process,
    )
    try:
        app = make_app(
            client,
            settings,
            model_name=model_name,
            max_num_seqs=config.max_num_seqs,
            has_priorities=config.looks_at_priority,
            defaults=defaults,
            host=listener.getsockname()[0],
        )
        await _serve_until_stopped(listener, app, client, settings, stop)
    finally:
        await client.close(HURRY_S if stop.hurry.is_set() else STOP_S)
        telemetry.recorder.flush()


async def _serve_until_stopped(
    listener: socket.socket,
    app: object,
    client: CoreClient,
    settings: ServerSettings,
    stop: StopSignal,
) -> None:
    """Answer HTTP until told to stop, or until there is no core any more: then raises why."""
    server = _Server(
        uvicorn.Config(
            app,  # type: ignore[arg-type]  # an ASGI application by starlette's types, not by uvicorn's
            http=PatientProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=1,  # what is open then has been aborted
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    anchoring = asyncio.create_task(_keep_time(client.frontend.telemetry))
    try:
        await _unless(stop.stop, client.life)
        await client.drain(settings.drain_timeout_s, stop.hurry)
    finally:
        server.should_exit = True
        await serving
        anchoring.cancel()


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
    """The result of `work`, or None if the event came first; `work` then goes on."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    return working.result() if working.done() else None


async def _keep_time(telemetry: Telemetry) -> None:
    while True:
        await asyncio.sleep(ANCHOR_S)
        telemetry.recorder.clock_anchor()
        telemetry.recorder.flush()


def _say_ready(on_ready: OnReady | None, url: str, link: CoreLink) -> None:
    if on_ready is not None:
        on_ready(url, link.ready, link.pid)
