"""A window of many steps cut into one piece a step, so that a replay can stop anywhere.

Invariant: applying the pieces one after the other is applying the window.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from tracing.window import Window

_BY_SEQ = ("kv_event", "cache_event", "decision")
_BY_STEP = ("step_request", "token")
_BY_TIME = {
    "request": "arrival_ns",
    "event": "ts_ns",
    "request_phase": "end_ns",
    "request_end": "end_ns",
}


def split_steps(
    window: Window, columns: Mapping[str, Sequence[str]]
) -> list[tuple[int | None, Window]]:
    """(step, its rows) in order; a last piece without a step if there is something after the last one."""

    def place(table: str, name: str) -> int:
        return list(columns[table]).index(name)

    steps = window.get("step", [])
    numbers = [row[place("step", "step")] for row in steps]
    seqs = [row[place("step", "seq")] for row in steps]
    ends = [row[place("step", "end_ns")] for row in steps]
    pieces: list[Window] = [{} for _ in range(len(steps) + 1)]

    def sort(table: str, column: str, marks: list[int]) -> None:
        at = place(table, column) if table in window else 0
        for row in window.get(table, ()):
            pieces[bisect_left(marks, row[at])].setdefault(table, []).append(row)

    for table, column in _BY_TIME.items():
        sort(table, column, ends)
    for table in _BY_SEQ:
        sort(table, "seq", seqs)
    for table in _BY_STEP:
        sort(table, "step", numbers)
    for i, row in enumerate(steps):
        pieces[i]["step"] = [row]
    found: list[tuple[int | None, Window]] = list(zip(numbers, pieces, strict=False))
    if pieces[-1]:
        found.append((None, pieces[-1]))
    return found
