"""Why did a token come late? What the steps between two tokens did beside it, or what befell its request.

    lost     the request was preempted and computed everything again
    absent   steps ran without it: others went first
    chunk    a step also computed a piece of somebody's prompt
    redo     a step also computed again what somebody else had lost

Source: Sarathi-Serve (Agrawal et al. 2024, section 3) for the price of a prompt in other people's gaps.
"""

from interview.phrases import fill
from interview.traced.asked import Asked, Row, Source, Statement, false, table

LATE = """
WITH usual AS (SELECT request_id, median(gap_ns) AS median_ns FROM token WHERE gap_ns > 0
               GROUP BY request_id HAVING count(*) >= 4),
t AS (SELECT *, lag(step) OVER (PARTITION BY request_id ORDER BY k) AS before FROM token)
SELECT t.engine_id, t.step, t.before, t.request_id, label(t.request_id) AS request, t.k, t.gap_ns, median_ns
FROM t JOIN usual USING (request_id)
WHERE gap_ns >= 2 * median_ns AND before IS NOT NULL AND before < t.step
ORDER BY gap_ns / median_ns DESC LIMIT 40
"""
BETWEEN = """
WITH s AS (SELECT * FROM step WHERE engine_id = {engine_id} AND step > {before} AND step <= {step}),
r AS (SELECT r.*, s.step AS _ FROM step_request r JOIN s USING (engine_id, step)),
n AS (SELECT step, num_rows FROM step WHERE engine_id = {engine_id})
SELECT (SELECT count(*) FROM s) - (SELECT count(*) FROM r WHERE request_id = {request_id}) AS absent,
       (SELECT count(*) FROM decision d JOIN reason v USING (code) WHERE v.kind = 'victim'
          AND d.request_id = {request_id} AND d.step > {before} AND d.step <= {step}) AS lost,
       (SELECT coalesce(sum(num_scheduled_tokens - num_recomputed_tokens), 0)::BIGINT FROM r
          WHERE is_prefill AND request_id <> {request_id}) AS chunk,
       (SELECT coalesce(sum(num_recomputed_tokens), 0)::BIGINT FROM r
          WHERE request_id <> {request_id}) AS redo,
       (SELECT label(arg_max(request_id, num_scheduled_tokens)) FROM r
          WHERE is_prefill AND request_id <> {request_id}) AS other,
       (SELECT sum(collected_ns - start_ns) FROM s)::BIGINT AS busy_ns,
       (SELECT count(*) FROM kv_event WHERE code = 608 AND engine_id = {engine_id}
          AND step > {before} AND step <= {step}) AS evictions,
       (SELECT num_rows FROM n WHERE step = {step}) AS num_rows,
       (SELECT num_rows FROM n WHERE step = {before}) AS num_rows_before
"""
AROUND = """
SELECT k, step, round(gap_ns / 1e6, 1) AS gap_ms FROM token
WHERE request_id = {request_id} AND k BETWEEN {k} - 3 AND {k} + 2 ORDER BY k
"""
MIN_TOKENS = 16
"""A smaller piece of a prompt does not make a step long."""
BUSY = 0.6
"""Share of the gap that the steps must fill; else the engine stood idle, and nothing recorded says why."""


def ask(source: Source) -> Asked | None:
    """A gap at least twice as long as usual, with one cause."""
    for late in source.shuffled(LATE):
        (facts,) = source.rows(BETWEEN.format(**late))
        cause = _cause(late, facts)
        if cause is None:
            continue
        values = {
            **{"request": late["request"], "other": facts["other"] or "?", "step": late["step"]},
            **{"tokens": facts[cause], "rows": facts["num_rows"]},
        }
        ms = {"gap": late["gap_ns"] / 1e6, "usual": late["median_ns"] / 1e6}
        return Asked(
            question=fill("trace_itl", k=late["k"], **ms, **values),
            right=Statement(fill(f"itl_{cause}", **values), fill(f"itl_{cause}_yes", **values)),
            wrong=tuple(false(f"itl_{name}", **values) for name in _refuted(facts)),
            moment=source.moment(late),
            picture=table(source.rows(AROUND.format(**late))),
            proof=source.step_rows(late["engine_id"], late["step"]),
        )
    return None


def _cause(late: Row, facts: Row) -> str | None:
    """The cause, if there is exactly one that explains the gap."""
    if facts["lost"]:
        return "lost"
    if facts["busy_ns"] is None or facts["busy_ns"] < BUSY * late["gap_ns"]:
        return None
    if facts["absent"]:
        return "absent"
    if facts["chunk"] >= MIN_TOKENS and not facts["redo"]:
        return "chunk"
    if facts["redo"] >= MIN_TOKENS and not facts["chunk"]:
        return "redo"
    return None


def _refuted(facts: Row) -> list[str]:
    """Causes that were not at work."""
    names = [name for name in ("lost", "absent", "chunk", "redo") if not facts[name]]
    if not facts["evictions"]:
        names.append("evict")
    if (facts["num_rows_before"] or 0) >= facts["num_rows"]:
        names.append("rows")
    return names
