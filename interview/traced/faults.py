"""Find the fault: recorded runs of an engine that may break one rule, and a query for each suspicion.

The idea: a suspicion is a rule that a sane run keeps in every step, and a query that brings the moments at
which it was broken. So nothing needs to say which run has which fault: the guilty suspicion is the one whose
query finds something, and a run in which none does is sane. The reveal shows the query and what it found.

Invariant: of one run at most one query finds anything (a test holds the runs of a checkout to that).
Source: the rules, not the faults: vLLM 0.33 `vllm/v1/core/sched/scheduler.py`, `kv_cache_manager.py`,
`kv_cache_utils.py`, `block_pool.py`.
"""

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from interview.drills import Choice, Drill, Moment
from interview.phrases import fill
from interview.traced.asked import Row, table
from interview.traced.runs import TRACES, opened, shown_path
from tracing.reader import Run

SUSPICIONS = ("full-hit", "salt", "starved", "newest-evicted", "overtaken")
SANE = "sane"
PROOFS = Path(__file__).parent / "proofs"
MAX_FOUND = 6
OVERVIEW = """
SELECT label(r.request_id) AS request, r.num_prompt_tokens AS prompt, n.text AS salt,
       e.num_cached_tokens AS cached, e.num_output_tokens AS output, e.num_preemptions AS preempted,
       (SELECT min(step) FROM step_request s WHERE s.request_id = r.request_id) AS first_step,
       (SELECT max(step) FROM step_request s WHERE s.request_id = r.request_id) AS last_step
FROM request r LEFT JOIN request_end e USING (request_id)
LEFT JOIN dict n ON n.kind = 'namespace' AND n.id = r.namespace_id AND r.namespace_id <> 0
ORDER BY r.arrival_ns, r.request_id LIMIT 24
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the queries say of a run."""

    guilty: str
    """One of SUSPICIONS, or SANE."""
    found: tuple[Row, ...]
    """Moments at which the rule was broken, first ones first."""


def verdict(run: Run) -> Verdict:
    """Try all suspicions on an open run. Raises TraceError."""
    for name in SUSPICIONS:
        rows = run.sql(proof_sql(name)).dicts()
        if rows:
            return Verdict(name, tuple(rows))
    return Verdict(SANE, ())


@cache
def proof_sql(name: str) -> str:
    """The query that finds broken moments of a suspicion: rows with `step` and what was the case there."""
    return (PROOFS / f"{name}.sql").read_text(encoding="utf-8")


def make(name: str, seed: int) -> Drill:
    """The drill about a run that comes with a checkout."""
    folder = TRACES / "faults" / name
    with opened(str(folder)) as (_, run):
        found = verdict(run)
        picture = table(run.sql(OVERVIEW).dicts())
        (summary,) = run.query("summary").dicts()
    path = shown_path(folder)
    names = [*SUSPICIONS, SANE]
    random.Random(seed).shuffle(names)
    right = names.index(found.guilty)
    replies = tuple(
        fill("fault_yes" if n == found.guilty != SANE else f"fault_{n}_no", times=len(found.found))
        for n in names
    )
    step = found.found[0]["step"] if found.found else None
    return Drill(
        card=f"fault/{name}",
        kind="fault",
        topic="measuring",
        rung="verify",
        level=3,
        title=fill("title_fault", name=name),
        question=fill("fault_question", path=path),
        answer=Choice(tuple(fill(f"fault_{n}") for n in names), right, replies),
        picture=picture,
        evidence=_evidence(path, found.guilty, step),
        proof=_proof(found),
        moment=Moment(path, summary["first_engine"], step),
    )


def _evidence(path: str, guilty: str, step: int | None) -> tuple[str, ...]:
    show = f"cutaway trace show {path}"
    if step is None:
        return (show,)
    query = shown_path(PROOFS / f"{guilty}.sql")
    return (f"{show} --step {step}", f'cutaway trace sql {path} -- "$(cat {query})"')


def _proof(found: Verdict) -> tuple[str, ...]:
    """The query, without its comment, and the first rows that it finds."""
    if found.guilty == SANE:
        return ()
    query = [q for q in proof_sql(found.guilty).splitlines() if not q.startswith("--")]
    return (*query, "", *table(found.found[:MAX_FOUND]))
