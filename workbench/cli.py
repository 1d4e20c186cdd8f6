"""The `cutaway` command: the one place where engine, tracing and screens are put together.

Commands are imported when they are called, so that `cutaway --help` answers at once and reading a trace never
loads torch.
"""

import importlib
import os
import sys

import click
from rich.console import Console

from engine.errors import CutawayError
from interview.errors import DrillError
from tracing.errors import TraceError

COMMANDS = {
    "demo": ("workbench.demo", "A model, an engine, real traffic, and what it decided."),
    "serve": ("workbench.serve", "OpenAI-compatible server, every decision traced."),
    "web": ("workbench.web.command", "Replay runs in the browser, or watch a live one."),
    "top": ("workbench.tui.command", "Watch the engine in the terminal, live or replayed."),
    "model": ("workbench.model", "Fetch and list models."),
    "learn": ("workbench.learn", "Lessons, graded by a run of your own."),
    "trace": ("workbench.trace_commands", "List, show, query and export recorded runs."),
    "bench": ("workbench.bench.command", "Measure the engine and the cost of tracing."),
    "numbers": ("workbench.numbers_command", "Worked numbers, line by line, beside our engine's."),
    "drill": (
        "workbench.drill_command",
        "Interview practice with marks, a plan and mock interviews.",
    ),
    "conformance": (
        "workbench.conformance.command",
        "Replay the real engines' decisions and report where ours differ.",
    ),
}


class LazyCommands(click.Group):
    """Finds `workbench.x` when `cutaway x` is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table: what one needs first comes first."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module; it has the command under its own name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.command(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cutaway")
def cutaway() -> None:
    """A real LLM serving engine that you can watch think.

    \b
    Start here:
      cutaway demo                  everything at once, then keeps serving
      cutaway trace show last       what the last run did, and why
    """


def main() -> None:
    """Run the command line; errors that a user can fix are one line, not a traceback."""
    # Two or more threads that spin for each other stop dead when anything else wants a core, a browser say:
    # steps became 5 times slower beside two busy processes, against 15 % on a quiet machine with short spins.
    # libgomp reads this when torch loads it, here and in child processes.
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        cutaway()
    except ModuleNotFoundError as error:
        extra = (
            "replay"
            if error.name in {"duckdb", "fsrs", "httpx", "opentelemetry", "textual"}
            else "engine"
        )
        _fail(f"{error.name} is not installed: pip install 'cutaway[{extra}]'")
    except (CutawayError, TraceError, DrillError) as error:
        _fail(str(error))


def _fail(message: str) -> None:
    Console(stderr=True).print(f"[bold red]error:[/bold red] {message}", highlight=False)
    sys.exit(1)


if __name__ == "__main__":
    main()
