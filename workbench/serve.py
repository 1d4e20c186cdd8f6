"""`cutaway serve`: an OpenAI-compatible server and its recorder, put together.

    this process   supervisor ──► API process ──► engine core        (engine.server)
         └──► recorder ◄── their spools ──► trace.duckdb             (tracing)

Every process writes what it does to a spool of its own in the run's folder; the recorder reads them all.
"""

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

import tracing
from engine.config import EngineConfig
from engine.frontend import served_name
from engine.generation_config import sampling_defaults
from engine.messages import Ready
from engine.model.config import load_config
from engine.server.address import is_loopback, listen
from engine.server.restarts import Restarts
from engine.server.settings import ServerSettings
from engine.server.supervisor import ApiSpec, EngineReady, Supervisor
from tracing.errors import TraceError
from tracing.record import NO_RECORDER, NULL, Code, Level, Recorder
from workbench.engine_options import engine_options, make_config
from workbench.model import ensure_model
from workbench.server_options import make_settings, server_options
from workbench.servers import RunningServer, announced, announcement
from workbench.web.child import web_process

LEVELS = [level.name.lower() for level in Level]


@dataclass(frozen=True, slots=True)
class MakeCoreRecorder:
    """Joins the recording from inside the core's process; travels there by pickle."""

    handle: tracing.RunHandle

    def __call__(self) -> Recorder:
        """The core's recorder."""
        return tracing.attach(self.handle, "core")


@dataclass(slots=True)
class KeepRecorderAlive:
    """Looks after the recorder while the server runs: one that dies is replaced, the engine never waits.

    Nor does it end with it: when no new one lasts, the spools keep what happens, and `tracing.open_run` reads
    them afterwards.
    """

    trace: tracing.Recording
    restarts: Restarts
    start_at: float | None = None
    """When the next one is started; None: one lives, or they were given up."""
    num_deaths: int = 0

    def __call__(self) -> None:
        """Called about each half second."""
        if self.start_at is None:
            signal = self.trace.recorder_died()
            if signal is None:
                return
            self.num_deaths += 1
            # The recorder itself has no number in the run.
            self._note(Code.PROC_DIED, NULL, signal)
            delay_s = self.restarts.next_delay()
            self.start_at = None if delay_s is None else time.monotonic() + delay_s
        if self.start_at is not None and time.monotonic() >= self.start_at:
            self.start_at = None
            self.trace.revive()
            self._note(Code.PROC_STARTED, NULL, self.restarts.num_restarts)

    def _note(self, code: Code, *args: int) -> None:
        recorder = self.trace.recorder("supervisor")
        recorder.event(code, *args)
        recorder.flush()


@click.command()
@engine_options
@server_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Elsewhere: set --api-key.")
@click.option("--port", default=8000, show_default=True, help="0: any free port.")
@click.option(
    "--trace-level",
    type=click.Choice(LEVELS),
    default="kernels",
    show_default=True,
    help="How much is recorded; off: nothing.",
)
@click.option("--record-tokens", is_flag=True, help="Let token ids into the trace.")
@click.option(
    "--run-dir", type=click.Path(path_type=Path), help="Folder of the run; default: a new one."
)
@click.option(
    "--web", is_flag=True, help="Open the workbench on this run: one address to watch it at."
)
@click.option("--show-config", is_flag=True, help="Print what would run, and how presets differ.")
def serve(
    host: str,
    port: int,
    trace_level: str,
    record_tokens: bool,
    run_dir: Path | None,
    web: bool,
    show_config: bool,
    **given: Any,
) -> None:
    """Serve a model over the OpenAI API, with every decision traced.

    \b
    Examples:
      cutaway serve
      cutaway serve --model ./my-llama --max-model-len 4096 --port 0
      cutaway serve --web
      cutaway serve --policy sglang --page-size 1 --schedule-policy lpm
      CUTAWAY_API_KEY=... cutaway serve --host 0.0.0.0
    """
    console = Console(stderr=True)
    config, settings = make_config(given), make_settings(given)
    folder = ensure_model(config.model, console)
    load_config(folder)  # an architecture that cannot run is refused before anything is started
    if show_config:
        from workbench.show_config import show_config as show  # torch, to ask for the device

        show(Console(), config, settings, folder)
        return
    if not is_loopback(host) and settings.api_key is None:
        console.print(
            f"[bold yellow]warning:[/bold yellow] {host} can be reached from other machines, and anybody "
            "there may use the server: set --api-key (or CUTAWAY_API_KEY)",
            highlight=False,
        )
    with ExitStack() as stack:
        listener = stack.enter_context(listen(host, port))
        trace = None
        if Level[trace_level.upper()] != Level.OFF:
            level = Level[trace_level.upper()]
            trace = stack.enter_context(
                tracing.start(run_dir, level=level, record_tokens=record_tokens)
            )
        say = Announcer(stack, console, served_name(config.model), settings, folder, trace, web)
        console.print(f"loading {config.model} ...", highlight=False)
        supervisor = Supervisor(
            _spec(config, settings, trace),
            listener,
            on_ready=say,
            recorder=NO_RECORDER if trace is None else trace.recorder("supervisor"),
            tick=_nothing if trace is None else KeepRecorderAlive(trace, Restarts()),
        )
        supervisor.run()
        console.print("stopped; sealing the run" if trace else "stopped", highlight=False)


@dataclass(slots=True)
class Announcer:
    """Says where the server is, to the terminal and to other commands, once it can be used."""

    stack: ExitStack
    console: Console
    model: str
    settings: ServerSettings
    folder: Path
    trace: tracing.Recording | None
    web: bool
    said: bool = False

    def __call__(self, found: EngineReady) -> None:
        """An engine is ready: the first one, or one in place of another."""
        say = partial(self.console.print, highlight=False, soft_wrap=True)
        if self.said:
            say(f"ready again: API process {found.api_pid}, engine core {found.core_pid}")
            return
        self.said = True
        run_dir = None if self.trace is None else str(self.trace.run_dir)
        server = RunningServer(os.getpid(), found.url, self.model, run_dir)
        self.stack.enter_context(announced(server))
        processes = f"API process {found.api_pid}, engine core {found.core_pid}"
        say(f"\n[bold]{self.model}[/bold] at {found.url}/v1   ({processes})")
        say(memory_line(found.ready))
        say(sampling_line(self.settings, self.folder))
        if run_dir:
            say(f"recording to {run_dir}")
        if self.web:
            say(f"workbench at {self._open_web(run_dir)}")
        say("Ctrl-C stops it; twice: at once.\n")

    def _open_web(self, run_dir: str | None) -> str:
        """The workbench's address, or why there is none: the server serves on either way."""
        try:
            return self.stack.enter_context(web_process([run_dir] if run_dir else []))
        except TraceError as error:
            return f"no address: {error}"


def memory_line(ready: Ready) -> str:
    """The ledger and what it buys, on one line."""
    uses = ", ".join(
        f"{name} {size / 2**20:,.0f} MiB"
        for name, size in ready.ledger.items()
        if name in ("weights", "kv", "workspace")
    )
    tokens = (ready.num_blocks - 1) * ready.block_size
    return (
        f"memory: {uses}; {ready.num_blocks - 1} blocks of {ready.block_size} = {tokens:,} tokens; "
        f"a request may be {ready.max_model_len:,} tokens long"
    )


def sampling_line(settings: ServerSettings, folder: Path) -> str:
    """What a request gets that says nothing about sampling."""
    if settings.generation_config == "vllm":
        return "sampling defaults: OpenAI's (--generation-config vllm)"
    found = sampling_defaults(folder)
    if not found:
        return "sampling defaults: OpenAI's; the model recommends none"
    named = ", ".join(f"{name} {value:g}" for name, value in found.items())
    return f"sampling defaults: {named}; the model's own (--generation-config vllm: OpenAI's)"


def _spec(
    config: EngineConfig, settings: ServerSettings, trace: tracing.Recording | None
) -> ApiSpec:
    clean_up = partial(announcement(os.getpid()).unlink, missing_ok=True)
    if trace is None:
        return ApiSpec(config=config, settings=settings, on_orphan=clean_up)
    return ApiSpec(
        config=config,
        settings=settings,
        make_trace=partial(tracing.Participant, trace.handle),
        make_core_recorder=MakeCoreRecorder(trace.handle),
        on_orphan=clean_up,
    )


def _nothing() -> None:
    """Nothing else is to be kept alive."""
