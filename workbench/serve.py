"""`cutaway serve`: an OpenAI-compatible server, a core process, and a recorder, put together.

this process   HTTP, text, request spans        ──ZMQ──►  engine core (child)
     └────────────── both write spools ──► recorder (child) ──► trace.duckdb
"""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

import tracing
from engine.config import EngineConfig
from engine.messages import Ready
from engine.server.run import serve as run_server
from tracing.record import Level, Recorder
from workbench.engine_options import engine_options, make_config
from workbench.model import ensure_model
from workbench.servers import RunningServer, announced

LEVELS = [level.name.lower() for level in Level]


@dataclass(frozen=True, slots=True)
class MakeCoreRecorder:
    """Joins the recording from inside the core's process; travels there by pickle."""

    handle: tracing.RunHandle

    def __call__(self) -> Recorder:
        """The core's recorder."""
        return tracing.attach(self.handle, "core")


@click.command()
@engine_options
@click.option("--host", default="127.0.0.1", show_default=True)
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
def serve(
    host: str,
    port: int,
    trace_level: str,
    record_tokens: bool,
    run_dir: Path | None,
    **given: Any,
) -> None:
    """Serve a model over the OpenAI API, with every decision traced.

    \b
    Examples:
      cutaway serve
      cutaway serve --model ./my-llama --max-model-len 4096 --port 0
      cutaway serve --policy sglang --page-size 1 --schedule-policy lpm
    """
    console = Console(stderr=True)
    config = make_config(EngineConfig(), given)
    ensure_model(config.model, console)
    level = Level[trace_level.upper()]
    with ExitStack() as stack:
        trace = make_recorder = None
        if level != Level.OFF:
            trace = stack.enter_context(
                tracing.start(run_dir, level=level, record_tokens=record_tokens)
            )
            make_recorder = MakeCoreRecorder(trace.handle)
        run_path = str(trace.run_dir) if trace else None
        console.print(f"loading {config.model} ...", highlight=False)
        run_server(
            config,
            host=host,
            port=port,
            trace=trace,
            make_core_recorder=make_recorder,
            on_ready=partial(_ready, stack, console, config.model, run_path),
        )
        console.print("stopped; sealing the run" if trace else "stopped", highlight=False)


def _ready(
    stack: ExitStack,
    console: Console,
    model: str,
    run_dir: str | None,
    url: str,
    ready: Ready,
    core_pid: int,
) -> None:
    """Say where the server is, to the terminal and to other commands."""
    stack.enter_context(announced(RunningServer(os.getpid(), url, model, run_dir)))
    say = partial(console.print, highlight=False)
    say(f"\n[bold]{model}[/bold] at {url}/v1   (engine core: process {core_pid})")
    say(_memory_line(ready))
    if run_dir:
        say(f"recording to {run_dir}")
    say("Ctrl-C stops it.\n")


def _memory_line(ready: Ready) -> str:
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
