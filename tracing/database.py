"""DuckDB as a trace uses it: closed in, one statement at a time, within a limit of time.

Invariant: a connection made here reads and writes nothing but its own file, and no statement can change that.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb

from tracing.errors import TraceError

DEAF_SECONDS = 5.0
"""After its interrupt a query may finish what it has in hand. One that takes longer than this heeds none."""
_CLOSED_IN = {
    "temp_directory": "",  # queries might read and write there
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "python_enable_replacements": False,
    "memory_limit": "2GB",
    "lock_configuration": True,
}
"""No files but its own, no network, no extensions, no Python variables; and no way to change that. In this
order: the folder first, because what may be read is decided with external access."""
_CLOSING = threading.Lock()
"""Connections of a process to one file share a database, which can be closed in once."""


def connect(path: Path, **options: Any) -> Any:
    """A connection to the file. Raises TraceError if it cannot be opened."""
    try:
        return duckdb.connect(str(path), **options)
    except duckdb.Error as error:
        if "lock" in str(error).lower():
            raise TraceError(
                f"{path} is open in another process: ask its recorder, or wait"
            ) from error
        raise TraceError(f"{path} cannot be opened: {first_line(error)}") from error


def kinds_of(text: str) -> list[Any]:
    """What each statement is. Raises TraceError if one cannot be read."""
    try:
        return [statement.type for statement in duckdb.extract_statements(text)]
    except duckdb.Error as error:
        raise TraceError(first_line(error)) from error


def connect_closed_in(path: Path, **options: Any) -> Any:
    """A connection to a database that reaches nothing but its own file. Raises TraceError."""
    with _CLOSING:
        con = connect(path, **options)
        (is_closed_in,) = con.execute("SELECT current_setting('lock_configuration')").fetchone()
        if not is_closed_in:
            close_in(con)
    return con


def close_in(con: Any) -> None:
    """Make its database an island."""
    for name, value in _CLOSED_IN.items():
        con.execute(f"SET {name} = {quoted(value)}")


@contextmanager
def time_limit(cursor: Any, seconds: float, give_up: Callable[[], None] | None) -> Iterator[None]:
    """Interrupt the cursor's query when its time is up; `give_up` if it goes on nevertheless."""
    timers = [threading.Timer(seconds, interrupt, (cursor,))]
    if give_up is not None:
        timers.append(threading.Timer(seconds + DEAF_SECONDS, give_up))
    for timer in timers:
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


def interrupt(cursor: Any) -> None:
    """End the cursor's query; it heeds this between vectors."""
    with suppress(duckdb.Error):  # it ended in this very moment
        cursor.interrupt()


def quoted(value: object) -> str:
    """As a literal of SQL."""
    return "'" + str(value).replace("'", "''") + "'"


def first_line(error: Exception) -> str:
    """What the database said, without its drawing of the place."""
    return str(error).strip().split("\n")[0]
