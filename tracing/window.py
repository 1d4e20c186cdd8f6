"""Everything that was recorded of a range of steps, in the shape of a frame of the live stream.

A replay is a state (`tracing.keyframe`) and windows after it; a live screen that wants to know what happened
before it came asks for a window too. What front ends record has no step: it belongs to the first step that
ends after it. What came after the last step belongs to the next one, which never came: so the end of a run is
"after step last + 1".

Invariant: windows that follow each other without gap bring every row of an engine's life exactly once.
"""

from tracing.reader import Run
from tracing.rows import Row

Window = dict[str, list[Row]]
"""Rows by table, columns as in `schema.sql`."""

_STEPS = "engine_id = {engine} AND step BETWEEN {a} AND {last_step}"
_SEQS = "engine_id = {engine} AND seq > {lo_seq} AND seq <= {hi_seq}"
_TABLES = {
    "request": ("arrival_ns > {lo_ns} AND arrival_ns <= {hi_ns}", "arrival_ns, request_id"),
    "kv_event": (_SEQS, "seq"),
    "cache_event": (_SEQS, "seq"),
    "decision": (_SEQS, "seq"),
    "step_request": (_STEPS, "step, row"),
    "token": (_STEPS, "ts_ns, request_id, k"),
    "step": (_STEPS + " AND end_ns IS NOT NULL", "step"),
    "event": ("ts_ns > {lo_ns} AND ts_ns <= {hi_ns}", "ts_ns"),
    "request_phase": ("end_ns > {lo_ns} AND end_ns <= {hi_ns}", "end_ns"),
    "request_end": ("end_ns > {lo_ns} AND end_ns <= {hi_ns}", "end_ns"),
}


def rows_between(run: Run, engine: int, first: int, last: int) -> Window:
    """What was recorded of steps `first` to `last`, both included. Raises TraceError."""
    (bounds,) = run.query("step_bounds", engine=engine, a=first, b=last).dicts()
    bounds |= {"engine": engine, "a": first}
    window: Window = {}
    for table, (where, order) in _TABLES.items():
        result = run.sql(f"FROM {table} WHERE {where.format(**bounds)} ORDER BY {order}")
        if result.truncated and first < last:
            middle = (first + last) // 2
            window = rows_between(run, engine, first, middle)
            for name, rows in rows_between(run, engine, middle + 1, last).items():
                window.setdefault(name, []).extend(rows)
            return window
        if result.rows:
            window[table] = result.rows
    return window
