"""For whom was a request preempted? Whoever ran short, among others of the same step who did not.

Source: vLLM 0.33 `vllm/v1/core/sched/scheduler.py` (schedule, _preempt_request).
"""

from interview.phrases import fill
from interview.traced.asked import Asked, Source, Statement, because

VICTIMS = """
SELECT d.engine_id, d.step, d.request_id, d.other_id, label(d.request_id) AS request, a1 AS lost,
       label(d.other_id) AS gainer, d.code, say(en, a0, a1, a2, a3, d.request_id, d.other_id) AS en,
       say(zh, a0, a1, a2, a3, d.request_id, d.other_id) AS zh
FROM decision d JOIN reason v USING (code)
WHERE v.kind = 'victim' AND d.request_id IS NOT NULL AND d.other_id IS NOT NULL
ORDER BY hash(d.seq + {seed}) LIMIT 20
"""
BYSTANDERS = """
SELECT DISTINCT request_id, label(request_id) AS label FROM step_request
WHERE engine_id = {engine_id} AND step IN ({step}, {step} - 1)
  AND request_id NOT IN ({request_id}, {other_id})
  AND request_id NOT IN (SELECT other_id FROM decision WHERE engine_id = {engine_id} AND step = {step}
                         AND other_id IS NOT NULL)
ORDER BY request_id
"""


def ask(source: Source) -> Asked | None:
    """A preemption with somebody who gained, perhaps the victim itself."""
    for victim in source.rows(VICTIMS.format(seed=source.random.randrange(2**31))):
        request = victim["request"]
        itself = victim["request_id"] == victim["other_id"]
        found = source.shuffled(BYSTANDERS.format(**victim))
        others = [row["label"] for row in found[: 3 if itself else 2]]
        self_text = fill("victim_self", request=request)
        wrong = [
            Statement(fill("victim_other", gainer=other), fill("victim_other_no", gainer=other))
            for other in others
        ]
        if not itself:
            wrong.append(Statement(self_text, fill("victim_self_no", gainer=victim["gainer"])))
        if len(wrong) < 2:
            continue
        right = self_text if itself else fill("victim_other", gainer=victim["gainer"])
        return Asked(
            question=fill("trace_victim", **victim),
            right=Statement(right, because(victim)),
            wrong=tuple(wrong),
            moment=source.moment(victim),
            picture=source.step_rows(victim["engine_id"], victim["step"] - 1),
            proof=source.step_rows(victim["engine_id"], victim["step"]),
        )
    return None
