"""`cutaway model`: fetch a model once, list what is there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from engine.model.hub import list_models, resolve_model, verify
from engine.model.hub import pull as pull_model
from engine.model.wheel import Progress as Stages

STAGES = {
    "wait": "waiting for another process that fetches it",
    "download": "downloading",
    "check": "checking SHA-256",
    "convert": "converting to safetensors",
    "write": "writing",
}


@contextmanager
def stage_bars(console: Console) -> Iterator[Stages]:
    """A progress bar per stage of a pull; nothing is drawn when nothing has to be done."""
    progress = Progress(
        TextColumn("   {task.description:<44}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=console,
    )
    tasks: dict[str, TaskID] = {}

    def report(stage: str, fraction: float) -> None:
        progress.start()
        if stage not in tasks:
            for task in tasks.values():
                progress.update(task, completed=1.0)
            tasks[stage] = progress.add_task(STAGES.get(stage, stage), total=1.0)
        progress.update(tasks[stage], completed=fraction)

    try:
        yield report
    finally:
        progress.stop()


def ensure_model(name: str, console: Console) -> Path:
    """The model's folder, fetched with progress on the screen if need be. Raises ModelError."""
    with stage_bars(console) as report:
        return resolve_model(name, report)


@click.group()
def model() -> None:
    """Fetch and list models.

    \b
    Examples:
      cutaway model pull smollm2-135m
      cutaway model ls
    """


@model.command()
@click.argument("name", default="smollm2-135m")
def pull(name: str) -> None:
    """Fetch NAME (default smollm2-135m), check it, and convert it once for the cache."""
    console = Console()
    with stage_bars(console) as report:
        folder = pull_model(name, report, contents=True)
    console.print(f"{name} is ready in {folder}", highlight=False)


@model.command("ls")
@click.option("--verify", "check", is_flag=True, help="Compare every byte with the checksums.")
def list_command(check: bool) -> None:
    """List the models that can be pulled, and which are here."""
    table = Table("name", "state", "download", "from", box=None, pad_edge=False)
    for entry in list_models():
        damage = verify(entry.name) if check and entry.damage is None else entry.damage
        state = "ready" if damage is None else damage
        table.add_row(entry.name, state, f"{entry.download_bytes / 2**20:.0f} MiB", entry.source)
    console = Console()
    console.print(table)
    console.print("\nAny local Hugging Face folder of a Llama, Qwen2 or Qwen3 model works too.")
