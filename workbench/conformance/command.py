"""`cutaway conformance`: the table of how equal we are, and the first place where we are not."""

import json
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from workbench.conformance.report import CaseResult
from workbench.conformance.run import Report, replay_folder


@click.command("conformance")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--markdown", is_flag=True, help="Print the table as Markdown, as README has it.")
@click.pass_context
def conformance(context: click.Context, folder: Path, markdown: bool) -> None:
    """Replay decisions recorded from the real engines and report where ours differ.

    FOLDER is searched for golden files (*.json). Exit code 1 on any difference.

    \b
    Example:
      cutaway conformance tests/golden
    """
    report = replay_folder(folder)
    if markdown:
        click.echo("\n".join(_markdown(report)))
    else:
        _print(report, Console())
    context.exit(1 if report.differences else 0)


def _print(report: Report, console: Console) -> None:
    table = Table("mechanism", "cases equal", "steps equal", "share", box=None, pad_edge=False)
    for mechanism, results in report.by_mechanism().items():
        table.add_row(*_cells(mechanism, results))
    console.print(table)
    if report.not_covered:
        console.print(f"\nnot covered: {len(report.not_covered)} files")
        for reason, names in _by_reason(report).items():
            console.print(f"  {reason}: {', '.join(names)}", highlight=False)
    for result in report.differences:
        _print_difference(result, console)


def _print_difference(result: CaseResult, console: Console) -> None:
    assert result.difference is not None
    d = result.difference
    console.print(f"\n[red]{result.name}[/red] differs at step {d.step}, field {d.field}")
    console.print(f"  theirs  {json.dumps(d.theirs)}", markup=False, highlight=False)
    console.print(f"  ours    {json.dumps(d.ours)}", markup=False, highlight=False)
    console.print(f"  rule    {d.rule}", markup=False, highlight=False)


def _markdown(report: Report) -> list[str]:
    lines = ["| mechanism | cases equal | steps equal | share |", "| --- | ---: | ---: | ---: |"]
    for mechanism, results in report.by_mechanism().items():
        lines.append("| " + " | ".join(_cells(mechanism, results)) + " |")
    for reason, names in _by_reason(report).items():
        lines.append(f"\nNot covered ({reason}): {', '.join(names)}.")
    return lines


def _cells(mechanism: str, results: list[CaseResult]) -> tuple[str, str, str, str]:
    equal = sum(result.difference is None for result in results)
    steps = sum(result.num_steps for result in results)
    equal_steps = sum(result.num_equal_steps for result in results)
    share = f"{100 * equal_steps / max(1, steps):.1f} %"
    return mechanism, f"{equal} / {len(results)}", f"{equal_steps} / {steps}", share


def _by_reason(report: Report) -> dict[str, list[str]]:
    reasons: dict[str, list[str]] = {}
    for name, reason in report.not_covered:
        reasons.setdefault(reason, []).append(Path(name).stem)
    return reasons
