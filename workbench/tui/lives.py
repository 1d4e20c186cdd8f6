"""The lives of an engine core within one run: each counts its steps from 0, and what died with it is over.

    core 0  steps 0 … 412  killed ─► core 2  steps 0 … 87  killed ─► core 4 ...

A request belongs to the front end that took it in (upper half of its id). When that one died and another
took its place, nobody waits for its requests any more, though nobody could say so.

Invariant: what a life's history shows happened after that life began, or was still open then.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tracing.codes import Code
from tracing.keyframe import END_OF_TIME_NS
from tracing.reader import Run
from tracing.window import Window

_TIMES = {"request_phase": "end_ns", "request_end": "end_ns", "event": "ts_ns"}


@dataclass(frozen=True, slots=True)
class Life:
    """One life of the core."""

    engine_id: int
    started_ns: int
    last_step: int


@dataclass(frozen=True, slots=True)
class Lives:
    """Those of a run in which a step was finished, oldest first, and the processes that recorded."""

    lives: tuple[Life, ...] = ()
    procs: tuple[dict[str, Any], ...] = ()
    """Table proc."""
    core_gone_ns: int | None = None
    """When the newest core died, if no other one has begun; None: it lives, as far as is known."""

    def __len__(self) -> int:
        return len(self.lives)

    def place(self, engine_id: int | None) -> int | None:
        """Which one it is, from 0; None: it is none of them."""
        return next((i for i, life in enumerate(self.lives) if life.engine_id == engine_id), None)

    def neighbour(self, engine_id: int | None, by: int) -> Life | None:
        """The one after it (1) or before it (-1)."""
        place = self.place(engine_id)
        if place is None or not 0 <= place + by < len(self.lives):
            return None
        return self.lives[place + by]

    def last_step(self, engine_id: int | None) -> int:
        """Of a life; -1: none."""
        place = self.place(engine_id)
        return -1 if place is None else self.lives[place].last_step

    def dead_front_ends(self, engine_id: int | None, *, is_now: bool) -> Iterator[tuple[int, int]]:
        """(process, when its successor began) of those that were gone before a life began, or by now."""
        began = self._began(engine_id)
        fronts = [proc for proc in self.procs if proc["role"] == "api"]
        if not is_now and began is not None:
            fronts = [proc for proc in fronts if proc["started_ns"] <= began]
        for before, after in pairwise(fronts):
            yield before["proc_id"], after["started_ns"]

    def end_ns(self, engine_id: int | None) -> int:
        """When the next life began: what was told later is not about this one."""
        after = self.neighbour(engine_id, 1)
        return END_OF_TIME_NS if after is None else after.started_ns

    def cut(self, engine_id: int, window: Window, columns: Mapping[str, Sequence[str]]) -> Window:
        """A history's rows without what was over when the life began, or began after it."""
        if len(self.lives) < 2:
            return window
        began, end = self._began(engine_id) or 0, self.end_ns(engine_id)
        if self.place(engine_id) == 0:
            began = 0
        kept = dict(window)
        for table, name in _TIMES.items():
            at = list(columns[table]).index(name)
            kept[table] = [row for row in window.get(table, ()) if began <= row[at] < end]
        over = _ids("request_end", window, columns) - _ids("request_end", kept, columns)
        dead = {proc_id for proc_id, _ in self.dead_front_ends(engine_id, is_now=False)}
        who = list(columns["request_end"]).index("request_id")
        kept["request_end"] = [row for row in kept["request_end"] if row[who] >> 32 not in dead]
        who, at = (list(columns["request"]).index(name) for name in ("request_id", "arrival_ns"))
        kept["request"] = [
            row
            for row in window.get("request", ())
            if row[at] < end
            and (row[at] >= began or not (row[who] in over or row[who] >> 32 in dead))
        ]
        return {table: rows for table, rows in kept.items() if rows}

    def _began(self, engine_id: int | None) -> int | None:
        return next(
            (
                p["started_ns"]
                for p in self.procs
                if p["role"] == "core" and p["engine_id"] == engine_id
            ),
            None,
        )


def _ids(table: str, window: Window, columns: Mapping[str, Sequence[str]]) -> set[int]:
    """The requests that these rows are about."""
    who = list(columns[table]).index("request_id")
    return {row[who] for row in window.get(table, ())}


def load_lives(run: Run) -> Lives:
    """Ask for them. Raises TraceError."""
    procs = run.sql("FROM proc ORDER BY started_ns").dicts()
    steps = run.sql(
        "SELECT engine_id, max(step) FROM step WHERE end_ns IS NOT NULL GROUP BY 1"
    ).rows
    last = dict(steps)
    lives = tuple(
        Life(proc["engine_id"], proc["started_ns"], last[proc["engine_id"]])
        for proc in procs
        if proc["role"] == "core" and proc["engine_id"] in last
    )
    (gone_ns,) = run.sql(
        f"SELECT max(ts_ns) FROM event JOIN proc ON proc.proc_id = event.a0 "
        f"WHERE code = {Code.PROC_DIED:d} AND role IN ('core', 'api')"
    ).rows[0]
    began_ns = max((proc["started_ns"] for proc in procs if proc["role"] == "core"), default=0)
    return Lives(lives, tuple(procs), gone_ns if gone_ns and gone_ns > began_ns else None)
