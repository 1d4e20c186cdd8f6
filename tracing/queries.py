"""The named queries: one file each in `sql/`, its first comment says what it answers."""

from functools import cache
from pathlib import Path

from tracing.errors import TraceError

_SQL = Path(__file__).parent / "sql"


@cache
def query_names() -> tuple[str, ...]:
    """Names that `Store.query` knows."""
    return tuple(sorted(path.stem for path in _SQL.glob("*.sql")))


@cache
def query_text(name: str) -> str:
    """The text of a query that `Store.query` knows. Raises TraceError if there is none."""
    if name not in query_names():
        raise TraceError(f"no query {name!r}; there are {', '.join(query_names())}")
    return (_SQL / f"{name}.sql").read_text()
