"""What the trace knows about one mark: raw rows with their reasons, nothing interpreted yet.

Each function asks one thing. Reasons come with their template and arguments, not as finished text, so that
the card can put a request's chip where its name belongs.

Invariant: what was not recorded is None or missing here; nobody fills it in.
"""

from dataclasses import dataclass
from typing import Any

from tracing.reader import Run
from workbench.web.queries import EVENTS, VICTIMS

Row = dict[str, Any]
ADMITTED = (103, 104, 105, 107, 109)


@dataclass(frozen=True, slots=True)
class Mark:
    """What the user points at: a kind of mark, where, and whose."""

    kind: str
    engine: int
    step: int
    request: int | None
    block: int | None


REASONS = """
WITH me AS (
    SELECT 0 AS place, 0::BIGINT AS seq, code, num_scheduled_tokens::BIGINT AS a0,
           num_computed_tokens::BIGINT AS a1, num_tokens::BIGINT AS a2, num_cached_tokens::BIGINT AS a3,
           request_id, NULL::UBIGINT AS other_id
    FROM step_request WHERE engine_id = {engine} AND step = {step} AND request_id = {request}
    UNION ALL
    SELECT 1, seq, code, a0, a1, a2, a3, request_id, other_id
    FROM decision WHERE engine_id = {engine} AND step = {step} AND request_id = {request}),
waits AS (
    SELECT 1 WHERE {waits}),
stops AS (
    SELECT d.* FROM decision d JOIN reason USING (code)
    WHERE kind = 'stop' AND engine_id = {engine} AND step = {step}
      AND d.request_id IS DISTINCT FROM {request} AND EXISTS (FROM waits)),
facts AS (
    FROM me
    UNION ALL SELECT 2, seq, 421, NULL, NULL, NULL, NULL, {request}, request_id
    FROM stops WHERE request_id IS NOT NULL
    UNION ALL SELECT 3, seq, code, a0, a1, a2, a3, request_id, request_id FROM stops)
SELECT f.code, lower(name) AS name, kind, rule, en, zh, a0, a1, a2, a3, request_id, other_id
FROM facts f JOIN reason USING (code) ORDER BY place, seq
"""


def reasons(run: Run, mark: Mark, *, waits: bool) -> list[Row]:
    """Row, decisions, and, if it waits, the stop that kept it waiting (as query `why_card` finds them)."""
    text = REASONS.format(
        engine=mark.engine, step=mark.step, request=mark.request, waits="true" if waits else "false"
    )
    return run.sql(text).dicts()


def step_reasons(run: Run, mark: Mark, most: int) -> list[Row]:
    """The decisions of a step, those that say most first."""
    return run.sql(
        "SELECT d.code, lower(name) AS name, kind, rule, en, zh, a0, a1, a2, a3, d.request_id, other_id"
        f" FROM decision d JOIN reason USING (code) WHERE engine_id = {mark.engine}"
        f" AND step = {mark.step} ORDER BY CASE kind WHEN 'victim' THEN 0 WHEN 'stop' THEN 1"
        f" WHEN 'cut' THEN 2 ELSE 3 END, seq LIMIT {most}"
    ).dicts()


def step_row(run: Run, mark: Mark) -> Row | None:
    """The step itself."""
    found = run.sql(f"FROM step WHERE engine_id = {mark.engine} AND step = {mark.step}").dicts()
    return found[0] if found else None


def batch_row(run: Run, mark: Mark, request: int | None = None) -> Row | None:
    """A request's row in the step."""
    who = mark.request if request is None else request
    found = run.sql(
        f"FROM step_request WHERE engine_id = {mark.engine} AND step = {mark.step} AND request_id = {who}"
    ).dicts()
    return found[0] if found else None


def life(run: Run, request: int) -> Row | None:
    """A request and its end, its place in the order of arrival, and how many there are."""
    found = run.sql(
        "SELECT l.*, (SELECT count(*) FROM request WHERE arrival_ns < l.arrival_ns) + 1 AS place,"
        " (SELECT count(*) FROM request) AS count,"
        " (SELECT sum(end_ns - start_ns)::BIGINT FROM request_phase"
        f" WHERE request_id = {request} AND phase = 'queue') AS queue_ns"
        f" FROM request_life l WHERE request_id = {request}"
    ).dicts()
    return found[0] if found else None


def output_before(run: Run, mark: Mark) -> int:
    """Tokens that the request had said when the step began."""
    ((n,),) = run.sql(
        f"SELECT count(*) FROM token WHERE engine_id = {mark.engine} AND step < {mark.step}"
        f" AND request_id = {mark.request}"
    ).rows
    return int(n)


def comeback(run: Run, mark: Mark) -> Row | None:
    """After a preemption: the step in which it was back, and what it had to compute again until the next."""
    found = run.sql(
        "WITH r AS (SELECT x.*, s.start_ns FROM step_request x JOIN step s USING (engine_id, step)"
        f" WHERE engine_id = {mark.engine} AND request_id = {mark.request} AND step > {mark.step}),"
        f" b AS (FROM r WHERE code = 104 ORDER BY step LIMIT 1),"
        f" n AS (SELECT min(step) AS step FROM decision WHERE engine_id = {mark.engine}"
        f" AND request_id = {mark.request} AND step > {mark.step} AND code IN {VICTIMS})"
        " SELECT b.step, b.start_ns, b.num_cached_tokens, (SELECT sum(num_recomputed_tokens)::BIGINT"
        " FROM r WHERE r.step >= b.step AND r.step < coalesce((SELECT step FROM n), 2147483647))"
        " AS num_recomputed_tokens FROM b"
    ).dicts()
    return found[0] if found else None


def given_up(run: Run, mark: Mark) -> tuple[int, list[int]]:
    """After a preemption: blocks that became free, and requests that still use some of the others."""
    (freed,) = run.sql(
        "SELECT coalesce(sum(abs(num_blocks)) FILTER (code IN (604, 605)), 0)::BIGINT AS n FROM kv_event"
        f" WHERE engine_id = {mark.engine} AND step = {mark.step} AND request_id = {mark.request}"
    ).rows
    kept = run.sql(
        "SELECT block_id FROM kv_event"
        f" WHERE engine_id = {mark.engine} AND step = {mark.step} AND request_id = {mark.request}"
        " AND code = 603 LIMIT 1"
    ).rows
    if not kept:
        return int(freed[0]), []
    # Neighbours of a shared prefix have the same holders: one block tells who they are.
    holders = run.sql(
        "SELECT DISTINCT e.request_id FROM kv_event e JOIN step_request x"
        " ON x.engine_id = e.engine_id AND x.request_id = e.request_id"
        f" AND x.step BETWEEN {mark.step} AND {mark.step + 1} WHERE e.engine_id = {mark.engine}"
        f" AND e.step <= {mark.step} AND e.code IN (601, 602) AND {of_block(kept[0][0])}"
        f" AND e.request_id <> {mark.request} LIMIT 4"
    ).rows
    return int(freed[0]), [row[0] for row in holders]


def end_reason(run: Run, ended: Row) -> list[Row]:
    """The reason of an end, in the shape of the other reasons."""
    return run.sql(
        f"SELECT code, lower(name) AS name, kind, rule, en, zh, {_literal(ended['a0'])} AS a0, NULL AS a1,"
        f" NULL AS a2, NULL AS a3, {ended['request_id']} AS request_id, NULL AS other_id FROM reason"
        f" WHERE code = {ended['code']}"
    ).dicts()


def _literal(number: int | None) -> str:
    return "NULL" if number is None else str(number)


def of_block(block: int) -> str:
    """The condition that a row of kv_event is about a block: rows are runs, up or down."""
    return (
        f"{block} between least(block_id, block_id + num_blocks + 1)"
        " and greatest(block_id, block_id + num_blocks - 1)"
    )


def block_events(run: Run, mark: Mark, most: int) -> list[Row]:
    """What happened to a block up to the step, newest first, with reasons."""
    block = mark.block or 0
    return run.sql(
        f"SELECT e.step, e.code, lower(name) AS name, kind, rule, en, zh, {block} AS a0,"
        " CASE e.code WHEN 608 THEN e.idle_steps ELSE 1 END AS a1, NULL AS a2, NULL AS a3,"
        " e.request_id, e.other_id, e.state, e.ref_count FROM kv_event e JOIN reason USING (code)"
        f" WHERE engine_id = {mark.engine} AND step <= {mark.step} AND {of_block(block)}"
        f" ORDER BY e.seq DESC LIMIT {most}"
    ).dicts()


def last_gap(run: Run, mark: Mark) -> Row | None:
    """The token that the request got in the step, and the step of the one before it."""
    found = run.sql(
        f"SELECT k, gap_ns, (SELECT max(step) FROM token o WHERE o.request_id = t.request_id"
        f" AND o.step < t.step) AS before FROM token t WHERE engine_id = {mark.engine}"
        f" AND step = {mark.step} AND request_id = {mark.request}"
    ).dicts()
    return found[0] if found else None


def between(run: Run, mark: Mark, first: int) -> Row:
    """Steps between two tokens: how many, how long the longest was, and whether a preemption lay there."""
    (found,) = run.sql(
        f"SELECT count(*) AS steps, max(end_ns - start_ns) AS longest_ns,"
        f" arg_max(step, end_ns - start_ns) AS longest, arg_max(num_prefill_tokens, end_ns - start_ns)"
        f" AS prefill, (SELECT max(step) FROM decision WHERE engine_id = {mark.engine}"
        f" AND request_id = {mark.request} AND step BETWEEN {first} AND {mark.step}"
        f" AND code IN {VICTIMS}) AS preempted FROM step WHERE engine_id = {mark.engine}"
        f" AND step BETWEEN {first} AND {mark.step}"
    ).dicts()
    return found


def place_of(run: Run, mark: Mark, kind: str) -> tuple[int, int]:
    """The mark's place among all of its kind, and how many there are."""
    text = EVENTS[kind].format(engine=mark.engine)
    mine = f"(step, request_id) <= ({mark.step}, {mark.request})"
    if kind == "eviction":
        mine = f"step <= {mark.step}"
    ((place, count),) = run.sql(
        f"WITH e AS ({text}) SELECT count(*) FILTER ({mine}), count(*) FROM e"
    ).rows
    return int(place), int(count)
