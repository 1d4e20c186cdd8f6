"""`cutaway top`: the command line of the terminal screens."""

import sys
from typing import Any

import click

from tracing.errors import TraceError
from workbench.look.words import LANGUAGES
from workbench.tui.theme import NAMES


@click.command()
@click.argument("target", required=False)
@click.option("--once", is_flag=True, help="Print a plain summary and leave.")
@click.option("--json", "as_json", is_flag=True, help="The same as JSON.")
@click.option(
    "--step",
    type=click.IntRange(min=0),
    help="Begin at this step, paused (default: the first, playing).",
)
@click.option(
    "--lang", type=click.Choice(LANGUAGES), help="Language (default: the last one chosen)."
)
@click.option("--theme", type=click.Choice(NAMES), help="Colours (default: the last ones chosen).")
@click.option(
    "--api-key", "key", envvar="CUTAWAY_API_KEY", help="The server's, for prompts and --dev."
)
@click.option("--ascii", "ascii_only", is_flag=True, help="No characters beyond ASCII.")
def top(
    target: str | None,
    once: bool,
    as_json: bool,
    step: int | None,
    lang: str | None,
    theme: str | None,
    key: str | None,
    ascii_only: bool,
) -> None:
    """Watch the engine think: live, or a recorded run.

    TARGET is a server's address, or a run (its name or the start of it, `last`, a folder). Without one, a
    server on this machine is found, as soon as there is one. `?` shows the keys.

    What a server records is told only on its own machine. To watch from another one, forward the recorder's
    port, which the run's recorder.json names there: `ssh -L 9000:127.0.0.1:PORT HOST`, then
    `cutaway top localhost:9000`.

    \b
    Examples:
      cutaway top                    the server that runs here
      cutaway top localhost:8000     the server at that address
      cutaway top last               replay the last run
      cutaway top last --once        a summary for scripts
    """
    from workbench.tui.source import ServerStartingError, find_source

    is_plain = once or as_json or not sys.stdout.isatty()
    source, starting = None, None
    try:
        source = find_source(target)
    except ServerStartingError as error:
        if is_plain:
            raise
        starting = error.url
    if is_plain:
        from workbench.tui.once import print_once

        if source is None:
            raise TraceError(
                "no server that records was found on this machine: `cutaway serve` starts one"
            )
        print_once(source, step=step, as_json=as_json, lang=lang or "en")
        return
    from workbench.tui.app import TopApp

    look: dict[str, Any] = {"lang": lang, "theme": theme, "ascii_only": ascii_only}
    TopApp(source, target=target, step=step, key=key, starting=starting, **look).run()
