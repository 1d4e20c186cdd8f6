"""Questions about one request that take more than a named query: why each token missed, why some came late.

    misses   the prompt's tokens that were not cached, by cause          `workbench.why_miss`
    gaps     the longest waits for a token, each with the step that took longest meanwhile

What a long wait is due to, in this order: it was preempted; a step took most of the time, with somebody's
prompt in it or without; somebody held the engine still; steps went by without it; time passed between steps.

Invariant: rows are plain values without language, except sentences that the trace itself carries.
"""

from collections.abc import Callable
from typing import Any

from tracing.codes import Code
from tracing.errors import TraceError
from tracing.keyframe import PREEMPTED
from tracing.reader import Run
from workbench.look.palette import label_of
from workbench.look.words import Words
from workbench.tui import numbers
from workbench.tui.log import Entry
from workbench.why_miss import causes

MAX_GAPS = 8
LONG = 2
"""Times the median: from there on a gap is worth a line."""
MOST = 0.5
"""Of a gap: a step that took so much of it explains it."""


def misses(run: Run, request: int, lang: str) -> list[dict[str, Any]]:
    """Causes and tokens of what was not cached at the first admission. Raises TraceError."""
    try:
        rows = causes(run, request, lang)
    except TraceError:
        return []  # tokens were not recorded: a radix tree's misses cannot be told
    return [row for row in rows if row["name"] != "HIT_PART"]


def gaps(run: Run, request: int) -> list[dict[str, Any]]:
    """The longest waits between tokens, in order. Raises TraceError."""
    codes = {"codes": PREEMPTED, "hold": (Code.PAUSE, Code.BREAKPOINT), "resume": (Code.RESUME,)}
    listed = {name: ", ".join(str(int(code)) for code in some) for name, some in codes.items()}
    text = _GAPS.format(request=int(request), long=LONG, n=MAX_GAPS, **listed)
    return run.sql(text).dicts()


QUESTIONS: dict[str, Callable[..., list[dict[str, Any]]]] = {"misses": misses, "gaps": gaps}
FIXED = frozenset({"misses"})
"""Once there is an answer, it does not change."""


def miss_entry(row: dict[str, Any], step: int, request_id: int) -> Entry:
    """A cause as a line, at the step of the admission."""
    return Entry(step, "miss", request_id, text=row["sentence"])


def gap_entry(row: dict[str, Any], request_id: int, words: Words) -> Entry:
    """A long wait as a line, at the step that is to blame."""
    gap_ns, slow_ns = row["gap_ns"], row["slow_ns"] or 0
    values = {"k": row["k"] + 1, "gap": numbers.fine(gap_ns)}
    step, key = row["step"], "tui.gap.idle"
    more: dict[str, Any] = {"time": numbers.fine(slow_ns)}
    if row["preempted_step"] is not None:
        key, more = "tui.gap.preempted", {"step": row["preempted_step"], "back": row["step"]}
    elif slow_ns >= MOST * gap_ns:
        step = row["slow_step"]
        key, more = "tui.gap.shared", more | {"rows": row["num_rows"]}
        if row["prefill_tokens"]:
            who = [label_of(other) for other in row["prefill_of"][:3]]
            who += ["…"] if len(row["prefill_of"]) > 3 else []
            more |= {"n": row["prefill_tokens"], "who": " ".join(who)}
            key = "tui.gap.prefill"
    elif row["is_held"]:
        key, more = "tui.gap.held", {"step": row["step"], "time": numbers.fine(gap_ns - slow_ns)}
    elif row["num_steps"] > 1:
        key, more = "tui.gap.without", {"n": row["num_steps"] - 1}
    return Entry(step, "gap", request_id, text=words(key, **values, **more))


_GAPS = """
WITH t AS (
    SELECT engine_id, k, step, gap_ns, lag(step) OVER (ORDER BY k) AS before_step
    FROM token WHERE request_id = {request} AND step IS NOT NULL),
long AS (
    SELECT * FROM t WHERE step > before_step
    AND gap_ns > {long} * (SELECT median(gap_ns) FROM t) ORDER BY gap_ns DESC, k LIMIT {n}),
slow AS (
    SELECT l.k, arg_max(s.step, s.end_ns - s.start_ns) AS slow_step, max(s.end_ns - s.start_ns) AS slow_ns,
           arg_max(s.num_rows, s.end_ns - s.start_ns) AS num_rows, count(*) AS num_steps
    FROM long l JOIN step s USING (engine_id)
    WHERE s.step > l.before_step AND s.step <= l.step AND s.end_ns IS NOT NULL GROUP BY l.k),
others AS (
    SELECT l.k, sum(r.num_scheduled_tokens)::BIGINT AS prefill_tokens,
           list(r.request_id ORDER BY r.num_scheduled_tokens DESC) AS prefill_of
    FROM long l JOIN slow USING (k)
    JOIN step_request r ON r.engine_id = l.engine_id AND r.step = slow.slow_step
    WHERE r.is_prefill AND r.request_id <> {request} GROUP BY l.k),
away AS (
    SELECT l.k, min(d.step) AS preempted_step FROM long l JOIN decision d ON d.engine_id = l.engine_id
    WHERE d.request_id = {request} AND d.code IN ({codes}) AND d.step > l.before_step AND d.step <= l.step
    GROUP BY l.k),
-- A hold lasts from its event to the next resume, or still; an event names the step that was to come.
acts AS (
    SELECT engine_id, code, step, lead(step) OVER (PARTITION BY engine_id ORDER BY seq) AS until_step
    FROM event WHERE code IN ({hold}, {resume}) AND step IS NOT NULL),
held AS (
    SELECT DISTINCT l.k FROM long l JOIN acts a USING (engine_id)
    WHERE a.code <> {resume} AND a.step <= l.step AND coalesce(a.until_step, l.step) > l.before_step)
SELECT l.engine_id, l.k, l.step, l.gap_ns, slow_step, slow_ns, num_rows, num_steps, prefill_tokens,
       prefill_of, preempted_step, held.k IS NOT NULL AS is_held
FROM long l LEFT JOIN slow USING (k) LEFT JOIN others USING (k) LEFT JOIN away USING (k)
LEFT JOIN held USING (k) ORDER BY l.k
"""
