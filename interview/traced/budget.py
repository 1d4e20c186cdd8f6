"""How much of a step does a prompt get? What those before it leave of the token budget.

Source: vLLM 0.33 `vllm/v1/core/sched/scheduler.py` (schedule: running requests first, one token budget).
"""

from interview.phrases import fill
from interview.traced.asked import Asked, Source, because, numbers, table

CUTS = """
SELECT d.engine_id, d.step, d.request_id, label(d.request_id) AS request, a0 AS want, a1 AS got,
       r.row, s.token_budget, s.num_rows, (SELECT block_size FROM run) AS block_size,
       say(en, a0, a1, a2, a3, d.request_id, d.other_id) AS en,
       say(zh, a0, a1, a2, a3, d.request_id, d.other_id) AS zh
FROM decision d JOIN reason USING (code) JOIN step s USING (engine_id, step)
JOIN step_request r USING (engine_id, step, request_id)
WHERE d.code = 201 AND r.row > 0 AND (SELECT policy FROM run) = 'vllm' AND s.token_budget IS NOT NULL
  AND NOT EXISTS (FROM decision c WHERE c.engine_id = d.engine_id AND c.step = d.step AND c.code = 202)
ORDER BY hash(d.seq + {seed}) LIMIT 10
"""
BEFORE = """
SELECT step, label(request_id) AS request, num_tokens, num_computed_tokens FROM step_request
WHERE engine_id = {engine_id} AND step = {step} AND row <= {row} ORDER BY row
"""


def ask(source: Source) -> Asked | None:
    """A prompt that was cut by what was left of the budget, with somebody before it."""
    for cut in source.rows(CUTS.format(seed=source.random.randrange(2**31))):
        got, unit = cut["got"], cut["block_size"] or 16
        others = [cut["want"], cut["token_budget"], got // unit * unit, cut["want"] - got]
        right, *wrong = numbers(got, others, because(cut), "budget_no")
        if len(wrong) >= 2:
            return Asked(
                question=fill("trace_budget", **cut),
                right=right,
                wrong=tuple(wrong),
                moment=source.moment(cut),
                picture=table(source.rows(BEFORE.format(**cut))),
                proof=source.step_rows(cut["engine_id"], cut["step"]),
            )
    return None
