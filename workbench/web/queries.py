"""What the canvases are drawn from: windows of a run, and the whole of it in few numbers.

    overview    facts that hold for the run, and its engines
    bins        the run in at most so many columns: for the scrubber, and for windows of many steps
    steps       everything in steps a..b, row by row: what the live stream sends, under the same names
    lives       requests from arrival to end, in steps
    pool        the block pool after a step; kv_event rows that follow it can be applied to it
    next_event  where the next preemption, eviction, miss or first token is

These are windows for drawing, not metrics: whoever wants a number goes to `tracing/sql`. Texts are made with
integers only, and run guarded like any other question.

Invariant: one answer is at most a few thousand rows, however long the run is.
"""

from collections.abc import Mapping
from typing import Any

from tracing.reader import Run, state_at
from tracing.result import Result

MAX_STEPS = 512
MAX_BINS = 2_000
MAX_LIVES = 20_000
VICTIMS = "(501, 502, 503, 504, 505, 506, 509)"
"""Decisions by which a request lost its memory (not the ratio, 508, nor the cache entries of 507)."""

_WINDOWS = {
    "step": "start_ns, scheduled_ns, submitted_ns, collected_ns, end_ns, num_rows, num_tokens,"
    " num_prefill_tokens, token_budget, max_num_seqs, num_running, num_waiting, used_blocks,"
    " cached_free_blocks, free_blocks, num_preempted, num_finished, level",
    "step_request": "request_id, code, num_scheduled_tokens, num_computed_tokens, num_tokens,"
    " is_prefill, num_cached_tokens, num_recomputed_tokens",
    "decision": "seq, code, request_id, other_id, a0, a1, a2, a3",
    "kv_event": "seq, code, block_id, num_blocks, request_id, other_id, idx, state, free_key",
    "token": "request_id, k, gap_ns",
}
_ORDER = {"step": "step", "step_request": "step, row", "token": "step, request_id"}

_LIVES = """
WITH core AS (SELECT step, start_ns FROM step WHERE engine_id = {engine}),
newest AS (SELECT * FROM request_life ORDER BY arrival_ns DESC, request_id DESC LIMIT {limit}),
came AS (SELECT request_id, core.step FROM newest ASOF JOIN core ON newest.arrival_ns <= core.start_ns),
ran AS (SELECT request_id, min(step) AS first_row, max(step) AS last_row,
               list(step ORDER BY step) FILTER (code = 104) AS resumed
        FROM step_request WHERE engine_id = {engine} GROUP BY ALL),
lost AS (SELECT request_id, list(step ORDER BY step) AS preempted FROM decision
         WHERE engine_id = {engine} AND code IN {victims} GROUP BY ALL),
spoke AS (SELECT request_id, min(step) AS first_token FROM token
          WHERE engine_id = {engine} AND k = 0 GROUP BY ALL)
SELECT request_id, arrival_ns, end_ns, code, num_prompt_tokens, max_tokens, num_output_tokens,
       num_cached_tokens, num_recomputed_tokens, first_token_ns, came.step AS arrival_step, first_row,
       last_row, first_token, coalesce(preempted, []) AS preempted, coalesce(resumed, []) AS resumed
FROM newest LEFT JOIN came USING (request_id) LEFT JOIN ran USING (request_id)
LEFT JOIN lost USING (request_id) LEFT JOIN spoke USING (request_id)
ORDER BY arrival_ns, request_id
"""

_BINS = """
SELECT min(step) AS step, max(step) AS last_step, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
       max(num_prefill_tokens) AS prefill, max(num_tokens - num_prefill_tokens) AS decode,
       sum(num_tokens)::BIGINT AS tokens, sum(num_prefill_tokens)::BIGINT AS prefill_tokens,
       max(num_running) AS running, max(num_waiting) AS waiting,
       sum(num_preempted)::BIGINT AS preempted, max(end_ns - start_ns) AS slowest_ns,
       max(used_blocks) AS used_blocks, max(token_budget) AS token_budget
FROM step WHERE engine_id = {engine} AND step BETWEEN {a} AND {b} AND end_ns IS NOT NULL
GROUP BY (step - {a}) // {width} ORDER BY 1
"""

_COMPUTED = """
SELECT request_id, arg_max(num_computed_tokens + num_scheduled_tokens, step) AS num_computed_tokens
FROM step_request WHERE engine_id = {engine} AND step BETWEEN {a} AND {b} GROUP BY ALL
"""

EVENTS: Mapping[str, str] = {
    "preemption": "SELECT step, seq, request_id, NULL AS block_id FROM decision"
    f" WHERE engine_id = {{engine}} AND code IN {VICTIMS}",
    "eviction": "SELECT step, min(seq) AS seq, any_value(other_id) AS request_id,"
    " arg_min(block_id, seq) AS block_id FROM kv_event"
    " WHERE engine_id = {engine} AND code = 608 GROUP BY step",
    "miss": "SELECT step, seq, request_id, NULL AS block_id FROM decision"
    " WHERE engine_id = {engine} AND code = 701",
    "first_token": "SELECT step, request_id AS seq, request_id, NULL AS block_id FROM token"
    " WHERE engine_id = {engine} AND k = 0",
}
"""What one can jump to: (step, seq, request, block) of each. Evictions count once per step."""


def overview(run: Run) -> dict[str, Any]:
    """What the header and the axes need: run facts, engines with their range of steps."""
    (facts,) = run.query("summary").dicts()
    engines = run.sql(
        "SELECT engine_id, min(step) AS first_step, max(step) AS last_step, min(start_ns) AS start_ns,"
        " max(end_ns) AS end_ns, max(token_budget) AS token_budget, max(max_num_seqs) AS max_num_seqs,"
        " max(num_waiting + num_running) AS most, min(level) AS min_level, max(level) AS max_level"
        " FROM step GROUP BY ALL ORDER BY engine_id"
    ).dicts()
    described = run.sql("SELECT created_ns, tokens_recorded, config FROM run").dicts()
    return {"facts": facts, "engines": engines, "run": described[0] if described else None}


def bins(run: Run, *, engine: int, a: int, b: int, most: int) -> dict[str, Any]:
    """Steps a..b folded into at most `most` columns of neighbouring steps."""
    width = max(1, -(-(b - a + 1) // max(1, min(most, MAX_BINS))))
    return run.sql(_BINS.format(engine=engine, a=a, b=b, width=width)).to_json()


def steps(run: Run, *, engine: int, a: int, b: int) -> dict[str, Any]:
    """All rows of steps a..b (at most 512), by table, as the live stream has them."""
    b = min(b, a + MAX_STEPS - 1)
    tables: dict[str, Result] = {}
    for table, columns in _WINDOWS.items():
        order = _ORDER.get(table, "seq")
        tables[table] = run.sql(
            f"SELECT step, {columns} FROM {table}"
            f" WHERE engine_id = {engine} AND step BETWEEN {a} AND {b} ORDER BY {order}"
        )
    return {
        "a": a,
        "b": b,
        "columns": {name: result.columns for name, result in tables.items()},
        "rows": {name: result.rows for name, result in tables.items()},  # plain values throughout
    }


def has_step(run: Run, *, engine: int, step: int) -> bool:
    """Whether the run has got as far as this step; the one after the last holds what came behind it."""
    ((first, last),) = run.sql(
        f"SELECT min(step), max(step) FROM step WHERE engine_id = {engine}"
    ).rows
    return first is not None and first <= step <= last + 1


def lives(run: Run, *, engine: int) -> dict[str, Any]:
    """The newest 20,000 requests in order of arrival, each from arrival to end in steps and in time."""
    text = _LIVES.format(engine=engine, limit=MAX_LIVES, victims=VICTIMS)
    return run.sql(text).to_json()


def pool(run: Run, *, engine: int, step: int) -> dict[str, Any]:
    """The block pool after a step (-1: before the first), and how far its requests had been computed.

    `early`: the tables do not have that step yet, though the live stream may. Ask again a moment later; what
    they could say now would be the pool of another moment.
    """
    if step < 0:  # nothing was ever touched
        ((num_blocks,),) = run.sql("SELECT any_value(num_blocks) FROM run").rows
        return {"columns": [], "rows": [], "computed": {}, "num_blocks": num_blocks, "early": False}
    ((last,),) = run.sql(
        f"SELECT max(step) FROM step WHERE engine_id = {engine} AND end_ns IS NOT NULL"
    ).rows
    if last is None or last < step:
        return {"early": True}
    found = state_at(run, "kv_at", engine=engine, step=step).to_json()
    # Where a running request stands: its last row. Who had none in 200 steps stands still, and nobody asks.
    told = run.sql(_COMPUTED.format(engine=engine, a=step - 200, b=step))
    return {**found, "computed": {str(row[0]): row[1] for row in told.rows}, "early": False}


def owners(run: Run, *, engine: int, step: int) -> dict[str, Any]:
    """Who used each block last, up to a step: what a block that is cached and free is remembered by."""
    ((_, _, n_seq),) = run.query("keyframe", engine=engine, n=step).rows
    rows = run.query("block_use", engine=engine, n_seq=n_seq).rows if n_seq is not None else []
    return {"owners": {str(row[0]): row[1] for row in rows}}


def next_event(
    run: Run, *, engine: int, kind: str, step: int, seq: int, back: bool
) -> dict[str, Any]:
    """The event of a kind (`EVENTS`) next to (step, seq), its place among all, and how many there are.

    `event` is null if there is none on that side.
    """
    compare, order = ("<", "DESC") if back else (">", "ASC")
    text = EVENTS[kind].format(engine=engine)
    here = f"(step, seq) {compare} ({step}, {seq})"
    found = run.sql(
        f"WITH e AS ({text}), n AS (FROM e WHERE {here} ORDER BY step {order}, seq {order} LIMIT 1)"
        " SELECT n.*, (SELECT count(*) FROM e WHERE (e.step, e.seq) <= (n.step, n.seq)) AS place,"
        " (SELECT count(*) FROM e) AS count FROM n"
    ).dicts()
    return {"event": found[0] if found else None}


def by_external_id(run: Run, external: str) -> dict[str, Any]:
    """The first request that a client got under this id; `request_id` null: not in the trace (yet)."""
    quoted = external.replace("'", "''")  # the one character that means something in a literal
    ((found,),) = run.sql(
        f"SELECT min(request_id) FROM request WHERE external_id = '{quoted}'"
    ).rows
    return {"request_id": found}
