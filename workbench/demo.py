"""`cutaway demo`: everything at once. A model, a server, real traffic, and what the engine decided and why.

The server is a process of its own, exactly what `cutaway serve` starts; the demo is its first client, and
then reads the run like any other viewer: from the recorder. So does the workbench, another process, whose
address is there before the traffic: who opens it then sees the run happen.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, aclosing, contextmanager
from pathlib import Path

import click
import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import tracing
from engine.errors import CutawayError
from tracing.errors import TraceError
from tracing.reader import LiveRun, Run
from tracing.runs import RunInfo, new_run_folder
from workbench.demo_load import SHOWN_QUESTION, make_load, send_load, stream_chat, user
from workbench.model import ensure_model
from workbench.servers import RunningServer, running_servers
from workbench.trace_show import Page, make_console, show_run
from workbench.web.child import web_process

MODEL = "smollm2-135m"
# A small pool and a small budget, so that chunks, waiting, eviction and preemption can be seen in seconds.
ENGINE = {
    "--max-model-len": 3328,
    "--num-blocks": 228,
    "--max-num-batched-tokens": 512,
    "--max-num-seqs": 16,
}
START_TIMEOUT_S = 180.0


class DemoError(CutawayError):
    """The demo's server could not be started, or did not answer."""


@click.command()
@click.option("--exit", "leave", is_flag=True, help="Leave after the summary; do not keep serving.")
@click.option("--port", default=0, help="Of the server; 0 (default): 8000, or a free one.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of reasons.")
def demo(leave: bool, port: int, lang: str) -> None:
    """Fetch a model, serve it, send it real traffic, and show what it decided and why.

    \b
    Examples:
      cutaway demo            then chat with it; Ctrl-C stops it
      cutaway demo --exit     the same, then exit; the run stays
    """
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # so that the server is stopped then, too
    console = make_console()
    console.print("[bold]1  model[/bold]")
    folder = ensure_model(MODEL, console)
    console.print(f"   {MODEL} in {folder}")
    with ExitStack() as stack:
        server = stack.enter_context(serving(console, port))
        assert server.run_dir is not None
        run_dir = Path(server.run_dir)
        page = None if leave else _open_workbench(console, stack, run_dir)
        console.print("[bold]3  traffic[/bold]")
        asyncio.run(_traffic(console, server))
        console.print("[bold]4  what happened[/bold]\n")
        with contextlib.closing(tracing.open_run(run_dir)) as run:
            summarise(console, run, run_dir, lang)
        _say_what_next(console, server, leave, page)
        if not leave:
            _wait(server)
    console.print(f"\nThe run is kept: cutaway web {run_dir.name}")


@contextmanager
def serving(console: Console, port: int) -> Iterator[RunningServer]:
    """A `cutaway serve` with the demo's settings; stopped, and its run sealed, at the end of the block.

    Raises DemoError with the end of the server's own words if it does not start.
    """
    run_dir = new_run_folder()
    run_dir.mkdir(parents=True)
    log = run_dir / "server.log"
    command = [sys.executable, "-P", "-m", "workbench.cli", "serve", "--model", MODEL]
    command += ["--record-tokens", "--run-dir", str(run_dir), "--port", str(port)]
    command += [str(word) for pair in ENGINE.items() for word in pair]
    console.print("[bold]2  server[/bold]  API, engine core, recorder")
    with log.open("w") as out:
        # A group of its own: Ctrl-C reaches the demo alone, which then stops the server in order.
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        yield _wait_until_ready(console, process, log)
    finally:
        process.terminate()
        with console.status("stopping the server and sealing the run"):
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _open_workbench(console: Console, stack: ExitStack, run_dir: Path) -> str | None:
    """The address of the page that follows the run, open as long as the stack; None: said why."""
    with console.status("   opening the workbench"):
        try:
            page = stack.enter_context(web_process([str(run_dir)]))
        except TraceError as error:
            console.print(f"   {error}", markup=False)
            return None
    console.print(f"   [bold]{page}[/bold]  watch what follows in a browser", soft_wrap=True)
    return page


def _wait_until_ready(
    console: Console, process: "subprocess.Popen[bytes]", log: Path
) -> RunningServer:
    start = time.monotonic()
    with console.status("   loading the weights and making room for KV"):
        while time.monotonic() - start < START_TIMEOUT_S:
            for server in running_servers():
                if server.pid == process.pid:
                    seconds = time.monotonic() - start
                    console.print(f"   {server.url}/v1, ready in {seconds:.1f} s")
                    return server
            if process.poll() is not None:
                break
            time.sleep(0.05)
    said = log.read_text().strip()
    raise DemoError(f"the server did not start; it said:\n{said[-2000:]}\n(all of it: {log})")


async def _traffic(console: Console, server: RunningServer) -> None:
    """Send the load with a bar, then stream one answer to the screen."""
    chats = make_load()
    columns = (
        TextColumn("   {task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    what = "short chats, a document, a shared system prompt, two languages, one cancelled"
    console.print(f"   {what}")
    try:
        with Progress(*columns, console=console) as progress:
            task = progress.add_task("conversations", total=len(chats))
            await send_load(server.url, server.model, chats, lambda: progress.advance(task))
        console.print(f"\n   [bold]{SHOWN_QUESTION}[/bold]\n   ", end="")
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as client:
            stream = stream_chat(client, server.model, [user(SHOWN_QUESTION)], 60)
            async with aclosing(stream) as pieces:
                async for piece in pieces:
                    console.print(piece, end="", markup=False, soft_wrap=True)
    except* httpx.HTTPError as group:
        first = group.exceptions[0]
        raise DemoError(f"the server did not answer: {first!r}; see {server.run_dir}") from None
    console.print("\n")


def summarise(console: Console, run: Run, run_dir: Path, lang: str) -> None:
    """What the recorder knows of the run: numbers, latencies, requests, telling decisions."""
    assert isinstance(run, LiveRun), "the server is still up"
    run.sync()
    info = RunInfo.load(run_dir)
    show_run(Page(run_dir.name, run_dir.name, info, run, console, lang))


def _say_what_next(console: Console, server: RunningServer, leave: bool, page: str | None) -> None:
    name = Path(server.run_dir or "").name
    shown = page or f"cutaway web {name}"
    lines = [
        f"{shown}     the run in the browser: replay it, ask it why",
        f"cutaway trace show {name} --request 11     one request: its life and its waits",
        f"cutaway trace show {name} --step 12        one step: who was in it, and why",
        f'cutaway trace sql {name} "FROM otel_spans LIMIT 5"',
    ]
    if not leave:
        body = (
            '{"model": "' + server.model + '", "messages": [{"role": "user", "content": "Hello"}]}'
        )
        lines.append(
            f"curl {server.url}/v1/chat/completions -H 'content-type: application/json' -d '{body}'"
        )
    console.print("\n[bold]What next[/bold]")
    for line in lines:
        console.print(f"  {line}", markup=False, soft_wrap=True)
    if not leave:
        console.print(f"\nServing at {server.url}/v1 until Ctrl-C.", soft_wrap=True)


def _wait(server: RunningServer) -> None:
    """Until Ctrl-C, or until the server is gone."""
    with contextlib.suppress(KeyboardInterrupt):
        while any(running.pid == server.pid for running in running_servers()):
            time.sleep(0.5)
