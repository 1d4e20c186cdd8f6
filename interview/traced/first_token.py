"""Where did the time to the first token go? The longest of the phases before it.

Source: none; phases are Cutaway's own (`tracing.record.Phase`).
"""

from interview.phrases import fill
from interview.traced.asked import Asked, Source, Statement, false, table

PARTS = {
    "queue": ("queue",),
    "prefill": ("prefill",),
    "preempted": ("preempted",),
    "front": ("receive", "tokenise", "to_core"),
}
CLEAR = 1.5
"""The longest part must be so many times as long as the next."""
SLOW = """
SELECT r.request_id, label(r.request_id) AS request, r.num_prompt_tokens,
       (e.first_token_ns - r.arrival_ns) / 1e6 AS ms, e.first_token_ns,
       t.engine_id, t.step,
       (SELECT min(step) FROM step s WHERE s.start_ns >= r.arrival_ns) AS arrives_before_step
FROM request r JOIN request_end e USING (request_id) JOIN token t USING (request_id)
WHERE t.k = 0 AND t.step IS NOT NULL AND e.first_token_ns IS NOT NULL ORDER BY ms DESC LIMIT 40
"""
PHASES = """
SELECT phase, sum(least(end_ns, {first_token_ns}) - start_ns)::BIGINT AS ns, min(first_step) AS first_step
FROM request_phase WHERE request_id = {request_id} AND start_ns < {first_token_ns}
GROUP BY phase ORDER BY ns DESC
"""
ROWS = """
SELECT step, num_scheduled_tokens, round((collected_ns - start_ns) / 1e6, 1) AS step_ms
FROM step_request JOIN step USING (engine_id, step)
WHERE request_id = {request_id} AND step <= {step} ORDER BY step LIMIT 8
"""


def ask(source: Source) -> Asked | None:
    """One of the slowest first tokens, where one part stands out."""
    for slow in source.shuffled(SLOW):
        phases = source.rows(PHASES.format(**slow))
        spent = {
            part: sum(row["ns"] for row in phases if row["phase"] in names)
            for part, names in PARTS.items()
        }
        longest, second = sorted(spent, key=lambda part: -spent[part])[:2]
        if spent[longest] == 0 or spent[longest] < CLEAR * spent[second]:
            continue
        took = {part: ns / 1e6 for part, ns in spent.items()}
        others = [part for part in PARTS if part != longest]
        return Asked(
            question=fill("trace_first_token", **slow),
            right=Statement(
                fill(f"first_{longest}"), fill("first_yes", took=took[longest], ms=slow["ms"])
            ),
            wrong=tuple(false(f"first_{part}", took=took[part]) for part in others),
            moment=source.moment(slow),
            picture=table(source.rows(ROWS.format(**slow))),
            proof=table(
                [{"phase": row["phase"], "ms": round(row["ns"] / 1e6, 1)} for row in phases]
            ),
        )
    return None
