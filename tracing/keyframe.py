"""The state of a run at one moment, as plain values: where a picture starts before it follows the rows.

    state = keyframe_at(run, step=300)       then rows_between(run, engine, 301, ...) or the live stream

The live stream begins with it, a replay seeks with it, and a screen that is paused asks for it; all three say
the same, because the same queries answer. Shape:

    engine_id, step, seq    step: the last finished one, -1: none; seq: the core's last record that counts
    level                   what is recorded now; null: no core has said hello
    step_row                {column: value} of table step; null: none
    running, waiting        request ids: in order of admission; in the order in which they would be admitted,
                            preempted ones included. Who is in neither, and has not left, is on its way.
    requests                [{...}] as `requests_at.sql` tells them: open ones, and the last that left
    blocks                  {"columns": [...], "rows": [[...]]}: kv_at, with `block_use.sql`; no rows below
                            level 3
    totals                  {...} of `totals_at.sql`

Invariant: running requests are those that hold blocks, wherever blocks are recorded; the queue is as long as
the core said, so who is still between front end and core does not count.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Any

from tracing.reader import Run
from tracing.record import Level

NUM_DONE = 50
"""How many of those that left are told."""
END_STEP = 2**31 - 1
END_OF_TIME_NS = 2**63 - 1
PREEMPTED = (501, 502, 503, 504, 505, 506, 509)
"""Codes of decisions after which a running request waits again."""
_BLOCK_COLUMNS = (
    *("block_id", "state", "ref_count", "node_id", "free_key", "holders", "idxs"),
    *("last_owner", "last_idx", "touched_step"),
)
State = dict[str, Any]


def keyframe_at(run: Run, *, engine: int | None = None, step: int | None = None) -> State:
    """The state after a step; without one, as of the last record; without an engine, of its latest life.

    Raises TraceError if the run does not answer.
    """
    (now,) = run.query("moment", engine=-1 if engine is None else engine, n=_or_end(step)).dicts()
    step_row = _step_row(run, now)
    is_end = step is None or step > now["last_step"]
    moment = {
        "engine": now["engine_id"],
        "n": END_STEP if is_end else step,
        "t_ns": END_OF_TIME_NS if is_end else step_row["end_ns"] if step_row else 0,
    }
    requests = run.query("requests_at", done=NUM_DONE, **moment).dicts()
    n_seq, blocks = _blocks(run, moment, now["level"])
    running = _running(requests, blocks)
    queue = waiting_order(requests, set(running), now["policy"], now["scheduling_policy"])
    if step_row is not None:
        queue = queue[: step_row["num_waiting"]]
    (totals,) = run.query("totals_at", **moment).dicts()
    return {
        "engine_id": now["engine_id"],
        "step": -1 if step_row is None else step_row["step"],
        "seq": n_seq,
        "level": now["level"],
        "step_row": step_row,
        "running": running,
        "waiting": queue,
        "requests": requests,
        "blocks": {"columns": list(_BLOCK_COLUMNS), "rows": blocks},
        "totals": totals,
    }


def describe(run: Run) -> dict[str, Any]:
    """What does not change while a run goes on: the columns of its tables, and what its core said of itself.

    {"columns": {table: [name, ...]}, "run": {column: value} | null}
    """
    columns = run.sql(
        "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
        "WHERE NOT internal GROUP BY 1"
    )
    said = run.sql("SELECT * REPLACE (run_id::VARCHAR AS run_id) FROM run").dicts()
    return {"columns": dict(columns.rows), "run": said[0] if said else None}


def waiting_order(
    requests: Iterable[Mapping[str, Any]],
    running: Container[int],
    policy: str | None,
    scheduling_policy: str | None,
) -> list[int]:
    """Ids of those that neither run nor have left, in the order in which the policy's queue keeps them.

    vLLM puts who was preempted back to the front, or lets the priority decide; SGLang puts it to the tail.
    """
    there = [r for r in requests if r["left_ns"] is None and r["request_id"] not in running]
    if policy == "vllm" and scheduling_policy == "priority":
        there.sort(key=lambda r: (r["priority"], r["arrival_ns"], r["request_id"]))
    elif policy == "vllm":
        there.sort(key=lambda r: (-(r["away_seq"] or 0), r["request_id"]))
    else:
        there.sort(key=lambda r: (r["away_ns"] or r["arrival_ns"], r["request_id"]))
    return [r["request_id"] for r in there]


def _or_end(step: int | None) -> int:
    return END_STEP if step is None else step


def _step_row(run: Run, now: Mapping[str, Any]) -> dict[str, Any] | None:
    if now["step"] is None:
        return None
    where = f"engine_id = {now['engine_id']} AND step = {now['step']}"
    return run.sql(f"FROM step WHERE {where}").dicts()[0]


def _blocks(run: Run, moment: Mapping[str, Any], level: int | None) -> tuple[int | None, list[Any]]:
    """The last record that counts, and the pool if it is recorded."""
    if moment["engine"] is None or level is None or level < Level.BLOCKS:
        return None, []
    at = {"engine": moment["engine"], "n": moment["n"]}
    ((_, k_seq, n_seq),) = run.query("keyframe", **at).rows
    pool = run.query("kv_at", engine=moment["engine"], k_seq=k_seq, n_seq=n_seq).dicts()
    used = run.query("block_use", engine=moment["engine"], n_seq=n_seq).dicts()
    use_of = {use["block_id"]: use for use in used}
    never = {"last_owner": None, "last_idx": None, "touched_step": None}
    merged = [row | use_of.get(row["block_id"], never) for row in pool]
    return n_seq, [[row[name] for name in _BLOCK_COLUMNS] for row in merged]


def _running(requests: list[dict[str, Any]], blocks: list[Any]) -> list[int]:
    """Who holds blocks; where blocks are not recorded, who was admitted and neither preempted nor done."""
    admitted = {
        r["request_id"]: (r["admitted_step"], r["admitted_row"])
        for r in requests
        if r["admitted_step"] is not None
    }
    if blocks:
        place = _BLOCK_COLUMNS.index("holders")
        there = {request_id for row in blocks for request_id in row[place]}
    else:
        there = {
            r["request_id"]
            for r in requests
            if r["request_id"] in admitted and r["away_seq"] is None and r["left_ns"] is None
        }
    return sorted(
        there, key=lambda request_id: (*admitted.get(request_id, (END_STEP, 0)), request_id)
    )
