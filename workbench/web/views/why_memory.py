"""Stories about memory: a request that loses its blocks, a block, and the step in which it all happens.

Sentences are `web.tell.<kind>.*`; reasons are the trace's own.
"""

from typing import Any

from tracing.reader import Run
from workbench.look.words import Words
from workbench.web.parts import duration
from workbench.web.views import why_facts as facts
from workbench.web.views.sentences import Part, Who, reason, sentence
from workbench.web.views.story import (
    MAX_REASONS,
    Story,
    decision_sql,
    named_reason,
    unrecorded,
    where,
)
from workbench.web.views.why_facts import Mark, Row

VLLM_VICTIMS = (501, 502, 503)
"""Codes whose first two arguments are blocks given up and tokens lost."""


def tell_preempt(run: Run, words: Words, mark: Mark) -> Story:
    """It loses its memory: who needed it, what was given up, what it costs to come back."""
    assert mark.request is not None
    step = facts.step_row(run, mark)
    told = facts.reasons(run, mark, waits=False)
    victim = next((row for row in told if row["kind"] == "victim"), None)
    who = Who(mark.request)
    said = facts.output_before(run, mark)
    story = Story(
        sentence(words, "web.tell.preempt.title", who=who),
        where(run, words, mark, step, words("web.tell.into", n=said)),
        decision_sql(mark, "code between 501 and 509"),
        is_alarm=True,
    )
    if victim is None:
        story.why = unrecorded(words, step)
        return story
    if victim["code"] in VLLM_VICTIMS:
        values = {"who": who, "blocks": victim["a0"], "lost": victim["a1"]}
        story.what = [sentence(words, "web.tell.preempt.what", **values)]
    story.why = [*_who_needed(run, words, mark, victim), reason(words, victim)]
    story.who = _who_else(run, words, mark, step, victim)
    _add_bill(run, words, mark, step, story)
    return story


def _who_needed(run: Run, words: Words, mark: Mark, victim: Row) -> list[list[Part]]:
    """For which token the cause of a preemption needed a block, if it was in the step."""
    other = victim["other_id"]
    if other is None or other == mark.request:
        return []
    row = facts.batch_row(run, mark, other)
    ((size,),) = run.sql("SELECT any_value(block_size) FROM run").rows
    if row is None or not size:
        return []
    token = row["num_computed_tokens"] + row["num_scheduled_tokens"]
    values = {"oth": Who(other), "token": token, "nth": -(-token // size)}
    return [sentence(words, "web.tell.preempt.needed", **values)]


def _who_else(
    run: Run, words: Words, mark: Mark, step: Row | None, victim: Row
) -> list[list[Part]]:
    freed, sharers = facts.given_up(run, mark)
    other = victim["other_id"]
    values: dict[str, Any] = {"n": freed, "oth": None if other is None else Who(other)}
    kind = "freed"
    if sharers:
        kind = "shared"
        values["kept"] = (victim["a0"] or freed) - freed
        values["users"] = tuple(Who(request) for request in sharers)
    told = [sentence(words, f"web.tell.preempt.{kind}", **values)]
    if step is not None:
        others = step["num_waiting"] - step["num_preempted"]
        told.append(sentence(words, "web.tell.preempt.wait", n=others))
    return told


def _add_bill(run: Run, words: Words, mark: Mark, step: Row | None, story: Story) -> None:
    back = facts.comeback(run, mark)
    if back is None or step is None:
        return
    after = duration(words, back["start_ns"] - step["start_ns"])
    kept, again = back["num_cached_tokens"], back["num_recomputed_tokens"] or 0
    values = {"n": back["step"], "after": after, "kept": kept, "again": again}
    story.costs = (kept, again)
    story.bill = [sentence(words, "web.tell.preempt.bill", **values)]


def tell_block(run: Run, words: Words, mark: Mark) -> Story:
    """A KV block: what it is now, and what was done to it last."""
    block = mark.block or 0
    events = facts.block_events(run, mark, MAX_REASONS)
    state = "untouched"
    if events:
        is_evicted = any(e["step"] == mark.step and e["code"] == 608 for e in events)
        state = "evicted" if is_evicted else events[0]["state"]
    holder = next((e["request_id"] for e in events if e["code"] in (601, 602, 610)), None)
    values = {
        "b": block,
        "who": None if holder is None else Who(holder),
        "n": events[0]["ref_count"] if events else 0,
    }
    story = Story(
        sentence(words, f"web.tell.block.{state}", **values),
        where(run, words, mark, facts.step_row(run, mark)),
        "select step, code, request_id, other_id, state, ref_count\nfrom kv_event\n"
        f"where engine_id = {mark.engine} and step <= {mark.step} and\n"
        f"      {facts.of_block(block)}\norder by seq desc",
        what=[sentence(words, f"web.tell.block.{state}_what", **values)],
    )
    for event in events:
        at = sentence(words, "web.tell.block.at", n=f"{event['step']:,}")
        story.why.append([*at, *reason(words, event)])
    return story


def tell_step(run: Run, words: Words, mark: Mark) -> Story:
    """The step as a whole."""
    step = facts.step_row(run, mark)
    story = Story(
        sentence(words, "web.tell.whole.title", n=f"{mark.step:,}"),
        where(run, words, mark, step),
        f"from step\nwhere engine_id = {mark.engine} and step = {mark.step}",
    )
    if step is None or step["end_ns"] is None:
        story.why = unrecorded(words, step)
        return story
    prefill, tokens = step["num_prefill_tokens"], step["num_tokens"]
    values = {
        "rows": step["num_rows"],
        "tokens": tokens,
        "budget": step["token_budget"],
        "prefill": prefill,
        "decode": tokens - prefill,
    }
    took, plan = (step[name] - step["start_ns"] for name in ("end_ns", "scheduled_ns"))
    times = {"took": duration(words, took), "plan": duration(words, plan)}
    story.what = [
        sentence(words, "web.tell.whole.what", **values),
        sentence(words, "web.tell.whole.took", **times),
    ]
    told = facts.step_reasons(run, mark, MAX_REASONS)
    story.why = [named_reason(words, row) for row in told]
    after = {"running": step["num_running"], "waiting": step["num_waiting"]}
    story.who = [sentence(words, "web.tell.whole.after", **after)]
    return story
