"""`cutaway numbers`: worked examples, line by line, with changeable inputs and our engine's value beside.

Each example of `interview.numbers` becomes a subcommand whose options are its inputs, so `--help` lists them.

Place in the step: none; with `--measure` the real schedulers run on a model without weights.
"""

import json
import math
import shutil
from collections.abc import Callable
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from interview.numbers import EXAMPLES
from interview.numbers.worked import Example, Line, Param, Value, Worked, plain, results, show
from interview.phrases import say
from interview.text import Language

LANG = click.Option(
    ["--lang"],
    type=click.Choice(["en", "zh"]),
    default="en",
    is_eager=True,
    help="Language of the text.",
)
JSON = click.Option(["--json", "as_json"], is_flag=True, help="Unrounded values, for programs.")


class Cases(click.ParamType[tuple[float, ...]]):
    """Several numbers: `2,5,3`."""

    name = "n,n,..."

    def __init__(self, kind: Callable[[str], float], least: float) -> None:
        self.kind = kind
        self.least = least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Read the list; fails with what was expected."""
        try:
            numbers = tuple(self.kind(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers such as 2,5,3", param, ctx)
        if not all(map(math.isfinite, numbers)):
            self.fail(say("numbers_not_finite", _language(ctx), value=value), param, ctx)
        if min(numbers) < self.least:
            self.fail(f"{value!r} holds a number below {self.least:g}", param, ctx)
        return numbers


class Amount(click.FloatRange):
    """A finite number within what makes sense."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it; `nan` and `inf` are numbers to Python, and no amounts."""
        try:
            number = float(value)
        except ValueError:
            return float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(say("numbers_not_finite", _language(ctx), value=value), param, ctx)
        if self.max is not None and number > self.max:
            values = {"value": value, "most": f"{self.max:g}"}
            self.fail(say("numbers_too_much", _language(ctx), **values), param, ctx)
        return float(super().convert(value, param, ctx))


class Numbers(click.Group):
    """Makes a command of each example when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In teaching order."""
        return list(EXAMPLES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The example as a command; its inputs are options."""
        example = EXAMPLES.get(cmd_name)
        if example is None:
            return None
        options: list[click.Parameter] = [_option(param) for param in example.params]
        if example.presets:
            kinds = click.Choice(list(example.presets))
            options.append(click.Option(["--preset"], type=kinds, help="A named set of inputs."))
        options.append(
            click.Option(["--measure"], is_flag=True, help="Our engine's own value beside it.")
        )
        return click.Command(
            cmd_name,
            params=[*options, LANG, JSON],
            help=f"{example.title.en}. {example.moral.en}",
            callback=lambda **given: _show(example, **given),
        )


@click.group("numbers", cls=Numbers, invoke_without_command=True, params=[LANG, JSON])
@click.pass_context
def numbers(context: click.Context, lang: Language, as_json: bool) -> None:
    """Worked numbers of LLM serving, line by line.

    \b
    Examples:
      cutaway numbers                              all of them
      cutaway numbers kv --preset llama-3-8b       bytes of KV per token
      cutaway numbers rounds --outputs 4,1,1,4 --measure
    """
    if context.invoked_subcommand is not None:
        return
    if as_json:
        every = {name: results(example.run()) for name, example in EXAMPLES.items()}
        click.echo(json.dumps(every, indent=1))
        return
    table = Table.grid(padding=(0, 3, 0, 0))
    for example in EXAMPLES.values():
        head = next(line for line in example.run() if line.key == example.headline)
        value = Text(show(head.value, head.unit, lang), style="bold")
        table.add_row(Text(example.name), value, Text(example.title.in_(lang), style="dim"))
    _console().print(table)


def _option(param: Param) -> click.Option:
    """One input as an option; what is not given keeps its preset or default."""
    default = param.default
    if isinstance(default, tuple):
        kind: click.ParamType[Any] = Cases(type(default[0]), param.least)
        shown = ",".join(f"{number:g}" for number in default)
    elif isinstance(default, int):
        kind, shown = click.IntRange(min=int(param.least)), str(default)
    else:
        most = param.most if math.isfinite(param.most) else None
        kind, shown = Amount(min=param.least, max=most), f"{default:g}"
    unit = f" {param.unit}" if param.unit else ""
    name = f"--{param.name.replace('_', '-')}"
    return click.Option([name, param.name], type=kind, help=f"{param.text.en} [{shown}{unit}]")


def _show(
    example: Example,
    *,
    measure: bool,
    lang: Language,
    as_json: bool,
    preset: str | None = None,
    **given: Value | None,
) -> None:
    values: dict[str, Value] = {param.name: param.default for param in example.params}
    values.update(example.presets[preset] if preset else {})
    values.update({name: value for name, value in given.items() if value is not None})
    worked = example.run(**values)
    room = [line.value for line in worked if line.key.startswith("left_")]
    if room and max(room) < 0:
        raise click.UsageError(say("numbers_nothing_fits", lang))
    measured = _measure(example.name, values) if measure else {}
    if as_json:
        data = {"inputs": values, "results": results(worked)}
        click.echo(json.dumps(data | ({"measured": measured} if measure else {}), indent=1))
        return
    console = _console()
    console.print(Text(example.title.in_(lang), style="bold"))
    console.print(Text(_inputs(example, values, lang), style="dim"), soft_wrap=True)
    console.print()
    console.print(_derivation(worked, measured, lang, with_measure=measure))
    if measure and not measured:
        console.print()
        console.print(Text(say("numbers_not_measured", lang), style="dim"))
    if room and min(room) < 0:
        console.print()
        console.print(Text(say("numbers_some_overflow", lang), style="dim"))
    console.print()
    console.print(Text(example.moral.in_(lang)))


def _language(ctx: click.Context | None) -> Language:
    """Of the command whose options are being read; LANG is read before them."""
    return "zh" if ctx is not None and ctx.params.get("lang") == "zh" else "en"


def _measure(name: str, values: dict[str, Value]) -> dict[str, float]:
    from workbench.numbers_measure import measure  # the engine, only when it is asked for

    return measure(name, values)


def _inputs(example: Example, values: dict[str, Value], lang: Language) -> str:
    parts = []
    for param in example.params:
        value = values[param.name]
        numbers = value if isinstance(value, tuple) else (value,)
        text = ", ".join([*(plain(n) for n in numbers[:-1]), show(numbers[-1], param.unit, lang)])
        parts.append(f"{param.text.in_(lang)} {text}")
    return " · ".join(parts)


def _derivation(
    worked: Worked, measured: dict[str, float], lang: Language, *, with_measure: bool
) -> Table:
    """What, how, value; and ours where it was measured, a cross where it differs."""
    table = Table.grid(padding=(0, 3, 0, 0))
    table.add_column(overflow="fold")
    table.add_column(style="dim", overflow="fold")
    table.add_column(style="bold", no_wrap=True)
    for line in worked:
        row = [Text(line.text.in_(lang)), Text(line.how), Text(show(line.value, line.unit, lang))]
        table.add_row(*row, _ours(line, measured, lang) if with_measure else "")
    return table


def _ours(line: Line, measured: dict[str, float], lang: Language) -> Text:
    if line.key not in measured:
        return Text("–", style="dim")
    value = measured[line.key]
    mark = "✓" if abs(value - line.value) < 1e-9 * max(1.0, abs(value)) else "✕"
    return Text(f"{mark} {show(value, line.unit, lang)}")


def _console() -> Console:
    """As wide as the terminal; piped, wide enough for the lines."""
    return Console(width=shutil.get_terminal_size((120, 24)).columns, highlight=False)
