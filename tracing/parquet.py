"""Rows and whole runs as Parquet files (zstd): small enough for a repository, readable by everybody.

Invariant: a run that was exported is read like any other (`Store.from_parquet`).
"""

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb

from tracing.database import connect, first_line, quoted
from tracing.errors import TraceError
from tracing.result import Result
from tracing.runs import STORE_FILE, RunInfo


def export_run(run_dir: Path, folder: Path) -> None:
    """Write a sealed run as a folder of Parquet files (zstd), small enough to be kept in a repository.

    Raises TraceError if the run is not sealed or the folder is not empty.
    """
    info = RunInfo.load(run_dir)
    if info.state != "sealed":
        raise TraceError(f"{run_dir.name} is still being recorded: stop it first")
    if folder.exists() and any(folder.iterdir()):
        raise TraceError(f"{folder} is not empty: name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    con = connect(run_dir / STORE_FILE, read_only=True)
    try:
        for (table,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            if con.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall():
                path = quoted(folder / f"{table}.parquet")
                con.execute(f"COPY {table} TO {path} (FORMAT parquet, COMPRESSION zstd)")
    finally:
        con.close()
    replace(info, store="parquet").save(folder)


def parquet_bytes(result: Result) -> bytes:
    """Rows as a Parquet file (zstd). Columns of one kind of number keep it; all else becomes text.

    Raises TraceError if the database cannot write them.
    """
    names = distinct(result.columns)
    columns = [_typed(name, [row[i] for row in result.rows]) for i, name in enumerate(names)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        con = duckdb.connect(":memory:")
        try:
            con.execute(f"CREATE TABLE rows ({', '.join(f'{n} {kind}' for n, kind, _ in columns)})")
            appender = con.appender("rows")
            appender.append_rows(list(zip(*(values for _, _, values in columns), strict=True)))
            appender.flush()
            con.execute(f"COPY rows TO {quoted(path)} (FORMAT parquet, COMPRESSION zstd)")
        except duckdb.Error as error:
            raise TraceError(f"these rows make no Parquet file: {first_line(error)}") from error
        finally:
            con.close()
        return path.read_bytes()


def distinct(names: Sequence[str]) -> list[str]:
    """The same names, a number behind those that came before: a table tells no `a` from an `A`."""
    taken, found = {name.lower() for name in names}, list[str]()
    seen: set[str] = set()
    for name in names:
        free, number = name, 0
        while free.lower() in seen or (number and free.lower() in taken):
            number += 1
            free = f"{name}_{number}"
        seen.add(free.lower())
        found.append(free)
    return found


def _typed(name: str, values: list[Any]) -> tuple[str, str, list[Any]]:
    """A column's quoted name, its type, and its values as that type takes them."""
    quoted = '"' + name.replace('"', '""') + '"'
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return quoted, "BOOLEAN", values
    if kinds == {int}:
        most = max(abs(value) for value in values if value is not None)
        if most < 10**38:  # Parquet has no integers of more than 64 bits
            return quoted, "DECIMAL(38, 0)" if most >= 2**63 else "BIGINT", values
    if float in kinds and kinds <= {int, float}:
        return quoted, "DOUBLE", [None if v is None else float(v) for v in values]
    return quoted, "VARCHAR", [None if v is None else str(v) for v in values]
