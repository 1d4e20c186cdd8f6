"""Stories about a request in a step: it gets tokens, it waits, it says its first token, it lags, it ends.

Sentences are `web.tell.<kind>.*`; reasons are the trace's own.
"""

from tracing.reader import Run
from workbench.look.words import Words
from workbench.web.parts import duration
from workbench.web.views import why_facts as facts
from workbench.web.views.sentences import Who, reason, sentence
from workbench.web.views.story import (
    MAX_REASONS,
    Story,
    decision_sql,
    row_sql,
    unrecorded,
    where,
)
from workbench.web.views.why_facts import Mark, Row


def tell_row(run: Run, words: Words, mark: Mark) -> Story:
    """A request gets tokens in a step; where it has no row, it waits."""
    assert mark.request is not None
    step, row = facts.step_row(run, mark), facts.batch_row(run, mark)
    if row is None:
        return tell_wait(run, words, mark)
    life = facts.life(run, mark.request)
    n, computed = row["num_scheduled_tokens"], row["num_computed_tokens"]
    values = {
        "who": Who(mark.request),
        "n": n,
        "computed": computed,
        "len": row["num_tokens"],
        "cached": row["num_cached_tokens"],
        "again": row["num_recomputed_tokens"],
        "left": row["num_tokens"] - computed - n,
    }
    kind = _kind(row)
    more = [words("web.tell.order", n=life["place"], count=life["count"])] if life else []
    story = Story(
        sentence(words, f"web.tell.{kind}.title", **values),
        where(run, words, mark, step, *more),
        row_sql(mark),
        what=[sentence(words, f"web.tell.{kind}.what", **values)],
    )
    told = facts.reasons(run, mark, waits=False)
    story.why = [reason(words, r) for r in told][:MAX_REASONS]
    if step is not None:
        others = {"n": step["num_rows"] - 1, "waiting": step["num_waiting"]}
        story.who = [sentence(words, "web.tell.with", **others)]
    return story


def _kind(row: Row) -> str:
    if not row["is_prefill"]:
        return "decode"
    if row["code"] == 104:
        return "back"
    if row["code"] in facts.ADMITTED:
        return "cached" if row["num_cached_tokens"] * 2 > row["num_tokens"] else "start"
    return "chunk"


def tell_wait(run: Run, words: Words, mark: Mark) -> Story:
    """It stands in the queue: the stop that ended admission says why."""
    assert mark.request is not None
    step, life = facts.step_row(run, mark), facts.life(run, mark.request)
    who, since = Who(mark.request), None
    if step is not None and life is not None:
        since = duration(words, max(0, step["start_ns"] - life["arrival_ns"]))
    told = [reason(words, r) for r in facts.reasons(run, mark, waits=True)][:MAX_REASONS]
    story = Story(
        sentence(words, "web.tell.wait.title", who=who),
        where(run, words, mark, step),
        decision_sql(mark, "code between 301 and 499"),
        what=[sentence(words, "web.tell.wait.what", who=who, since=since)],
        why=told or unrecorded(words, step),
    )
    if step is not None:
        counts = {"running": step["num_running"], "waiting": step["num_waiting"]}
        story.who = [sentence(words, "web.tell.wait.who", **counts)]
    return story


def tell_first_token(run: Run, words: Words, mark: Mark) -> Story:
    """Its prompt is done, and it says its first token."""
    assert mark.request is not None
    step, life = facts.step_row(run, mark), facts.life(run, mark.request)
    who = Who(mark.request)
    told = facts.reasons(run, mark, waits=False)
    story = Story(
        sentence(words, "web.tell.first_token.title", who=who),
        where(run, words, mark, step),
        f"select k, step, ts_ns, gap_ns\nfrom token\nwhere request_id = {mark.request} and k = 0",
        why=[reason(words, r) for r in told][:MAX_REASONS],
    )
    if life is None or step is None:
        return story
    took = duration(words, step["collected_ns"] - life["arrival_ns"])
    values = {"who": who, "took": took, "prompt": life["num_prompt_tokens"]}
    story.what = [sentence(words, "web.tell.first_token.what", **values)]
    if life["queue_ns"] is not None:
        queued = duration(words, life["queue_ns"])
        story.what.append(sentence(words, "web.tell.first_token.queued", queued=queued))
    return story


def tell_gap(run: Run, words: Words, mark: Mark) -> Story:
    """A token, and how long its reader waited for it."""
    assert mark.request is not None
    step, token = facts.step_row(run, mark), facts.last_gap(run, mark)
    who = Who(mark.request)
    more = [words("web.tell.token", n=token["k"])] if token else []
    gap = duration(words, token["gap_ns"] if token else None)
    story = Story(
        sentence(words, "web.tell.gap.title", who=who, gap=gap),
        where(run, words, mark, step, *more),
        "select k, step, gap_ns\nfrom token\n"
        f"where request_id = {mark.request} and step <= {mark.step}\norder by k desc limit 5",
    )
    if token is None or token["before"] is None:
        return story
    lay = facts.between(run, mark, token["before"] + 1)
    longest = {"longest": lay["longest"], "took": duration(words, lay["longest_ns"])}
    story.what = [sentence(words, "web.tell.gap.what", n=lay["steps"], **longest)]
    if lay["preempted"] is not None:
        story.why = [sentence(words, "web.tell.gap.preempted", who=who, n=lay["preempted"])]
    elif lay["prefill"]:
        prefill = {"n": lay["prefill"], "step": lay["longest"]}
        story.why = [sentence(words, "web.tell.gap.prefill", **prefill)]
    else:
        story.why = [sentence(words, "web.tell.gap.plain", who=who)]
    return story


def tell_end(run: Run, words: Words, mark: Mark) -> Story:
    """It has ended, and how."""
    assert mark.request is not None
    life = facts.life(run, mark.request)
    story = Story(
        sentence(words, "web.tell.end.title", who=Who(mark.request)),
        where(run, words, mark, facts.step_row(run, mark)),
        "select code, num_output_tokens, num_cached_tokens,\n"
        "       num_recomputed_tokens, num_preemptions\nfrom request_end\n"
        f"where request_id = {mark.request}",
    )
    if life is None or life["end_ns"] is None:
        return story
    took = duration(words, life["end_ns"] - life["arrival_ns"])
    values = {"n": life["num_output_tokens"], "took": took}
    story.what = [sentence(words, "web.tell.end.what", **values)]
    story.why = [reason(words, row) for row in facts.end_reason(run, life)]
    if life["num_preemptions"]:
        lost = {"n": life["num_preemptions"], "again": life["num_recomputed_tokens"]}
        story.who = [sentence(words, "web.tell.end.lost", **lost)]
    return story
