"""A run's tables in DuckDB: who writes them, and who may ask what.

One process writes (the recorder); a live file cannot be opened by a second one, so readers ask the recorder
and open the file only when it is sealed. Rows and the spool offsets up to which they reach are committed in
one transaction: after any kill, what the tables hold and what is read next fit together, nothing is lost and
nothing comes twice.

What people may ask is guarded four times over: exactly one statement, of a kind that reads; inside a
read-only transaction; on a database that has no access to files or network and a locked configuration; with
a limit on time and rows. The database heeds its limits between vectors only, so free questions are put to a
process that can be spared (`tracing.clerk`).

Invariant: rows are only ever appended; only `ingest` is overwritten.
"""

import re
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from tracing.codes import Code
from tracing.database import (
    close_in,
    connect_closed_in,
    first_line,
    interrupt,
    kinds_of,
    quoted,
    time_limit,
)
from tracing.errors import NotAQuestion, TookTooLong, TookTooMuch, TraceError
from tracing.queries import query_text
from tracing.result import Result
from tracing.rows import Row, Rows, kernel_columns
from tracing.runs import STORE_FILE

MAX_ROWS = 100_000
MAX_SECONDS = 20.0
PATIENCE_SECONDS = 1.0
"""With queries that go on while the run is completed."""
_HERE = Path(__file__).parent
_GAP = r"(?:\s|--[^\r\n]*[\r\n]|/\*(?:(?!/\*|\*/).)*\*/)"
"""A space or a comment. None that holds another one: where it ends, two readers may disagree."""
_EXPLAIN = re.compile(rf"{_GAP}*explain{_GAP}+(?:analyze{_GAP}+)?(.*)", re.IGNORECASE | re.DOTALL)
_CLOSE_OPEN_REQUESTS = """
INSERT INTO request_end
SELECT r.request_id, greatest($end_ns, r.arrival_ns), $code, NULL, coalesce(t.n, 0), s.num_cached,
       coalesce(s.num_recomputed, 0), coalesce(p.n, 0), t.first_ns, t.last_ns, NULL, NULL,
       (SELECT max(step) FROM step)
FROM request r ANTI JOIN request_end USING (request_id)
LEFT JOIN (SELECT request_id, count(*) AS n, min(ts_ns) AS first_ns, max(ts_ns) AS last_ns
           FROM token GROUP BY ALL) t USING (request_id)
LEFT JOIN (SELECT request_id, arg_min(num_cached_tokens, step) AS num_cached,
                  sum(num_recomputed_tokens) AS num_recomputed
           FROM step_request GROUP BY ALL) s USING (request_id)
LEFT JOIN (SELECT request_id, count(*) AS n FROM decision JOIN reason USING (code)
           WHERE kind = 'victim' AND request_id IS NOT NULL GROUP BY ALL) p USING (request_id)
"""


@dataclass(frozen=True, slots=True)
class Position:
    """How much of a spool segment the tables hold, in bytes."""

    offset: int
    torn: int
    sealed: bool


class Store:
    """An open trace. One thread writes; any thread may query."""

    def __init__(self, con: Any, give_up: Callable[[], None] | None = None) -> None:
        """`give_up`: called when a query heeds no interrupt, from a thread of its own."""
        self._con = con
        self._give_up = give_up
        self._lock = threading.Lock()
        self._asked: set[Any] = set()
        """Cursors that are answering."""

    @classmethod
    def writable(cls, run_dir: Path, give_up: Callable[[], None] | None = None) -> "Store":
        """Open the run's tables for writing, made anew if there are none.

        Raises TraceError if another process has them open.
        """
        # One thread: the engine needs the processors more than the recorder does.
        store = cls(connect_closed_in(run_dir / STORE_FILE, config={"threads": 1}), give_up)
        if not store._con.execute("SELECT 1 FROM duckdb_tables() LIMIT 1").fetchall():
            store._create_tables()
        return store

    @classmethod
    def read_only(cls, run_dir: Path) -> "Store":
        """Open a sealed run; several readers may at once. Raises TraceError if it cannot be opened."""
        return cls(connect_closed_in(run_dir / STORE_FILE, read_only=True))

    @classmethod
    def from_parquet(cls, folder: Path) -> "Store":
        """Load a run that is stored as one Parquet file per table. Raises TraceError if one does not fit."""
        con = duckdb.connect(":memory:")
        store = cls(con)
        store._create_tables(reasons=False)
        try:
            for (table,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                path = folder / f"{table}.parquet"
                if path.exists():  # an empty table has no file
                    rows = f"read_parquet({quoted(path)})"
                    con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM {rows}")
        except duckdb.Error as error:
            raise TraceError(f"{folder} is no run of this version: {first_line(error)}") from error
        close_in(con)
        return store

    # -- writing ---------------------------------------------------------------------------------

    def positions(self) -> dict[tuple[int, int], Position]:
        """What is in the tables, by (proc_id, segment)."""
        found = self._con.execute(
            "SELECT proc_id, segment, offset_bytes, torn_bytes, sealed FROM ingest"
        )
        return {(row[0], row[1]): Position(*row[2:]) for row in found.fetchall()}

    def commit(
        self, rows: Rows, positions: Sequence[tuple[Any, ...]], *, sealed_at_ns: int | None = None
    ) -> None:
        """Append rows and overwrite `ingest` rows, all or nothing.

        `sealed_at_ns`: this is the last commit, and requests that are still open end there (code 833).
        """
        with self._transaction():
            self._append(rows)
            for position in positions:
                self._con.execute(
                    "INSERT OR REPLACE INTO ingest VALUES (?, ?, ?, ?, ?, ?)", position
                )
            if sealed_at_ns is not None:
                values = {"end_ns": sealed_at_ns, "code": int(Code.INTERRUPTED)}
                self._con.execute(_CLOSE_OPEN_REQUESTS, values)
        if sealed_at_ns is not None:
            self._end_questions()
            with suppress(duckdb.Error):  # one goes on: the log beside the file says the same
                self._con.execute("CHECKPOINT")

    def has_run_row(self) -> bool:
        """Whether a core has described the run."""
        return bool(self._con.execute("SELECT 1 FROM run").fetchall())

    def close(self) -> None:
        """Close the file. Queries of other threads are ended; one that heeds nothing keeps the file open."""
        self._end_questions()
        with self._lock, suppress(duckdb.Error):
            self._con.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading ---------------------------------------------------------------------------------

    def query(self, name: str, /, **params: Any) -> Result:
        """A query of `tracing/sql` by name, with its parameters. Raises TraceError if there is none."""
        return self._run(query_text(name), params, MAX_ROWS, MAX_SECONDS)

    def sql(self, text: str, *, limit: int = MAX_ROWS, seconds: float = MAX_SECONDS) -> Result:
        """One SELECT, EXPLAIN or DESCRIBE. Raises TraceError if it is not, fails, or takes too long."""
        kinds = kinds_of(text)
        if len(kinds) != 1:
            raise NotAQuestion(f"one statement at a time, please: there are {len(kinds)}")
        # EXPLAIN ANALYZE runs what it explains.
        explained = _EXPLAIN.fullmatch(text) if kinds[0] is duckdb.StatementType.EXPLAIN else None
        if explained is not None:
            kinds = kinds_of(explained[1])
        if kinds != [duckdb.StatementType.SELECT]:
            raise NotAQuestion(
                f"a trace can only be read: SELECT, EXPLAIN [ANALYZE] SELECT or DESCRIBE, not {kinds[0].name}"
            )
        return self._run(text, {}, limit, seconds)

    def _run(self, text: str, params: Mapping[str, Any], limit: int, seconds: float) -> Result:
        began = time.monotonic()
        with self._lock:
            cursor = self._con.cursor()
            self._asked.add(cursor)
        try:
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            with time_limit(cursor, seconds, self._give_up):
                answer = cursor.execute(text, dict(params)) if params else cursor.execute(text)
                columns = tuple(column[0] for column in answer.description)
                rows = answer.fetchmany(limit + 1)
        except duckdb.InterruptException:
            if time.monotonic() - began < seconds:
                raise TraceError("the run was completed meanwhile: ask once more") from None
            raise TookTooLong(
                f"took longer than {seconds:g} s: narrow it, for example to a range of steps"
            ) from None
        except (duckdb.OutOfMemoryException, MemoryError):
            raise TookTooMuch("took more memory than there is for it: narrow it") from None
        except duckdb.Error as error:
            raise TraceError(first_line(error)) from error
        finally:
            with self._lock:
                self._asked.remove(cursor)
            cursor.close()
        return Result(columns, rows[:limit], truncated=len(rows) > limit)

    # -- inside ----------------------------------------------------------------------------------

    def _end_questions(self) -> None:
        """Let other threads' queries end, then interrupt them; `PATIENCE_SECONDS` for each of the two."""
        began = time.monotonic()
        while self._asked and (waited := time.monotonic() - began) < 2 * PATIENCE_SECONDS:
            if waited > PATIENCE_SECONDS:
                with self._lock:
                    for cursor in self._asked:
                        interrupt(cursor)
            time.sleep(0.01)

    def _create_tables(self, *, reasons: bool = True) -> None:
        with self._transaction():
            self._con.execute((_HERE / "schema.sql").read_text())
            if reasons:
                self._append(Rows({"reason": _reasons()}))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._con.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._con.execute("ROLLBACK")
            raise
        self._con.execute("COMMIT")

    def _append(self, rows: Rows) -> None:
        for table, tuples in rows.tables.items():
            appender = self._con.appender(table)
            appender.append_rows(tuples)
            appender.flush()
        if rows.kernels:
            self._con.register("launches", kernel_columns(rows.kernels))
            self._con.execute("INSERT INTO kernel BY NAME SELECT * FROM launches")
            self._con.unregister("launches")


def _reasons() -> list[Row]:
    """The catalogue as rows of table reason."""
    catalogue = tomllib.loads((_HERE / "reasons.toml").read_text())
    return [
        (
            *(reason["code"], name, reason["kind"], reason["policy"]),
            *(",".join(reason["args"]), reason["rule"], reason["en"], reason["zh"]),
        )
        for name, reason in catalogue.items()
    ]
