"""`cutaway trace`: recorded runs as a person wants to read them, and as tables for everybody else.

Only queries of `tracing/sql` and what the reader interface answers; a live run, a sealed one and a folder of
Parquet files look the same from here.
"""

import csv
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import click
from rich.table import Table

import tracing
from tracing.clerk import Clerk
from tracing.errors import TraceError
from tracing.result import Result
from tracing.runs import RunInfo, find_run, lock_run
from workbench.trace_show import (
    Page,
    duration,
    make_console,
    plain,
    show_request,
    show_run,
    show_step,
)
from workbench.why_miss import show_why_miss

RUN_HELP = "RUN is a run's name or the start of it, `last`, or a folder."


@click.group(epilog=RUN_HELP)
def trace() -> None:
    """List, show, query and export recorded runs."""


@trace.command("ls")
def list_command() -> None:
    """List the runs at hand, oldest first."""
    runs = tracing.list_runs()
    if not runs:
        raise TraceError("no runs yet: `cutaway demo` makes one")
    table = Table(box=None, pad_edge=False)
    for name in ("run", "state", "started", "model"):
        table.add_column(name, no_wrap=name == "run")
    for name in ("duration", "requests", "steps", "tokens"):
        table.add_column(name, justify="right")
    for path, info in runs:
        said = _summary(path, info)
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(info.created_ns / 1e9))
        counts = (said.get(name) for name in ("requests", "steps", "output_tokens"))
        table.add_row(
            *(path.name, _state(path, info), started, plain(said.get("model") or "-")),
            *(duration(said.get("duration_ns")), *("-" if n is None else str(n) for n in counts)),
        )
    make_console().print(table)


@trace.command("show", epilog=RUN_HELP)
@click.argument("run")
@click.option("--step", type=int, help="One step: its rows, why, and what happened to blocks.")
@click.option("--request", "request_name", help="One request, as the lists name it: 7 or #7.")
@click.option("--engine", type=int, help="Which engine's step (default: the first).")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of reasons.")
def show_command(
    run: str, step: int | None, request_name: str | None, engine: int | None, lang: str
) -> None:
    """What a run did, and why.

    \b
    cutaway trace show last                 key numbers, latencies, requests, telling decisions
    cutaway trace show last --step 12       one step
    cutaway trace show last --request 7     one request
    """
    path = find_run(run)
    opened = tracing.open_run(path)
    try:
        page = Page(path.name, run, RunInfo.load(path), opened, make_console(), lang)
        if request_name is not None:
            show_request(page, request_name)
        elif step is not None:
            show_step(page, step, engine)
        else:
            show_run(page)
    finally:
        opened.close()


@trace.command("sql", epilog=RUN_HELP)
@click.argument("run")
@click.argument("query")
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values.")
@click.option("--json", "as_json", is_flag=True, help="A list of objects.")
@click.option("--limit", default=1000, show_default=True, help="Rows at most.")
def sql_command(run: str, query: str, as_csv: bool, as_json: bool, limit: int) -> None:
    """Ask a run anything in SQL.

    One SELECT, EXPLAIN or DESCRIBE, as DuckDB understands it; at most 20 s.

    \b
    cutaway trace sql last "SHOW TABLES"
    cutaway trace sql last "DESCRIBE step_request"
    cutaway trace sql last "SELECT step, num_tokens FROM step ORDER BY num_tokens DESC LIMIT 5"
    cutaway trace sql last "SELECT name, count(*) FROM otel_spans GROUP BY 1" --csv

    What the tables mean is written in tracing/schema.sql.
    """
    if as_csv and as_json:
        raise click.UsageError("--csv or --json, not both")
    with Clerk() as clerk:
        result = clerk.ask(find_run(run), query, limit=limit)
    _print_result(result, as_csv=as_csv, as_json=as_json)
    if result.truncated:
        click.echo(f"only the first {limit} rows: there are more (--limit)", err=True)


@trace.command("export", epilog=RUN_HELP)
@click.argument("run")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def export_command(run: str, folder: Path) -> None:
    """Write a run as a folder of Parquet files.

    FOLDER is new, and gets one file per table; the run must have ended. Every command here reads such a
    folder as it reads a run, and so does anything else that reads Parquet.
    """
    path = find_run(run)
    tracing.open_run(path).close()  # completes it, if it was interrupted
    from tracing.parquet import export_run  # the database only when it is needed

    export_run(path, folder)
    num_bytes = sum(file.stat().st_size for file in folder.iterdir())
    click.echo(f"{folder}: {num_bytes / 1e6:.1f} MB")


@trace.command("why-miss", epilog=RUN_HELP)
@click.argument("run")
@click.argument("request_name", metavar="REQUEST")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="Language of reasons.")
def why_miss_command(run: str, request_name: str, lang: str) -> None:
    """Why each token of a prompt was computed instead of found in the prefix cache.

    REQUEST as the lists name it: 7 or #7. The counts add up to the prompt's length.

    \b
    cutaway trace why-miss last 7
    """
    path = find_run(run)
    opened = tracing.open_run(path)
    try:
        page = Page(path.name, run, RunInfo.load(path), opened, make_console(), lang)
        show_why_miss(page, request_name)
    finally:
        opened.close()


def _summary(path: Path, info: RunInfo) -> dict[str, Any]:
    """The run in one row; of a run that is going on, what its recorder says now."""
    if info.state == "sealed":
        return info.summary
    from tracing.reader import try_live  # HTTP only when it is needed

    live = try_live(path, info)
    if live is None:
        return {}
    try:
        return live.query("summary").dicts()[0]
    finally:
        live.close()


def _state(path: Path, info: RunInfo) -> str:
    if info.state == "sealed":
        return "sealed" if info.store == "duckdb" else info.store
    lock = lock_run(path)
    if lock is None:
        return "recording"
    os.close(lock)
    return "interrupted"


def _print_result(result: Result, *, as_csv: bool, as_json: bool) -> None:
    if as_json:
        said = result.to_json()
        rows = [dict(zip(said["columns"], row, strict=True)) for row in said["rows"]]
        click.echo(json.dumps(rows, indent=1, ensure_ascii=False))
    elif as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerow(result.columns)
        writer.writerows(result.rows)
    else:
        table = Table(box=None, pad_edge=False)
        for i, name in enumerate(result.columns):
            is_number = any(isinstance(row[i], int | float) for row in result.rows[:1])
            table.add_column(plain(name), justify="right" if is_number else "left")
        for row in result.rows:
            table.add_row(*("" if value is None else plain(value) for value in row))
        make_console().print(table)
