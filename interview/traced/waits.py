"""Why was a waiting request not admitted? The stop at which the admission loop ended, among others.

Source: vLLM 0.33 `vllm/v1/core/sched/scheduler.py` (schedule, the loop over waiting requests); SGLang 0.5.23
`sglang/srt/managers/schedule_policy.py` (PrefillAdder).
"""

from interview.phrases import fill
from interview.traced.asked import Asked, Row, Source, Statement, because, false, table

CLASSES = {
    "memory": (404, 405, 406, 411, 418, 420),
    "budget": (401, 407, 412, 413, 414),
    "places": (402, 403, 415),
    "preempted": (408,),
}
"""Stops that mean the same to whoever waits."""
STOPS = """
WITH d AS (
    SELECT * FROM decision WHERE code IN ({codes})
    QUALIFY row_number() OVER (PARTITION BY code ORDER BY hash(seq + {seed})) <= 5)
SELECT d.engine_id, d.step, d.code, w.request_id, label(w.request_id) AS request,
       say(en, a0, a1, a2, a3, d.request_id, d.other_id) AS en,
       say(zh, a0, a1, a2, a3, d.request_id, d.other_id) AS zh,
       s.num_tokens, s.token_budget, s.num_rows, s.num_running, s.max_num_seqs, s.num_preempted,
       (SELECT count(*) FROM step_request a JOIN request r USING (request_id), request me
        WHERE a.engine_id = d.engine_id AND a.step = d.step AND a.code IN (103, 105, 107, 109)
          AND me.request_id = w.request_id AND r.arrival_ns > me.arrival_ns) AS overtakers
FROM d JOIN reason USING (code) JOIN step s USING (engine_id, step)
JOIN LATERAL (SELECT coalesce(d.request_id, (
    SELECT min(p.request_id) FROM request_phase p WHERE p.phase = 'queue'
      AND p.start_ns <= s.start_ns AND p.end_ns > s.scheduled_ns)) AS request_id) w ON true
WHERE w.request_id IS NOT NULL AND s.end_ns IS NOT NULL ORDER BY d.seq
"""
AROUND = """
SELECT step, num_rows, num_tokens, token_budget, num_running, num_waiting, num_preempted
FROM step WHERE engine_id = {engine_id} AND step BETWEEN {step} - 3 AND {step} - 1 ORDER BY step
"""


def ask(source: Source) -> Asked | None:
    """A step at which the loop stopped for a recorded reason."""
    codes = ", ".join(str(code) for group in CLASSES.values() for code in group)
    stops = source.shuffled(STOPS.format(codes=codes, seed=source.random.randrange(2**31)))
    by_class: dict[str, list[Row]] = {}
    for stop in stops:
        name = next(name for name, group in CLASSES.items() if stop["code"] in group)
        by_class.setdefault(name, []).append(stop)
    for name in source.random.sample(sorted(by_class), len(by_class)):
        stop = by_class[name][0]
        wrong = _refuted(stop, name)
        if len(wrong) >= 2:
            columns = ("step", "num_rows", "num_tokens", "token_budget", "num_preempted")
            return Asked(
                question=fill("trace_waits", **stop),
                right=Statement(fill(f"waits_{name}"), because(stop)),
                wrong=tuple(false(f"waits_{other}", **stop) for other in wrong),
                moment=source.moment(stop),
                picture=table(source.rows(AROUND.format(**stop))),
                proof=table([{column: stop[column] for column in columns}]),
            )
    return None


def _refuted(stop: Row, right: str) -> list[str]:
    """Reasons that the step's own numbers rule out."""
    holds = {
        "memory": right == "preempted",  # that is why it preempted
        "budget": stop["num_tokens"] >= stop["token_budget"],
        "places": max(stop["num_running"], stop["num_rows"]) >= stop["max_num_seqs"],
        "preempted": stop["num_preempted"] > 0,
        "overtaken": stop["overtakers"] > 0,
    }
    return [name for name, true in holds.items() if name != right and not true]
