"""The story of one request: why it waited, why tokens missed, why some came late; in order, up to the cursor.

    arrive ─► lookup ─► miss ... ─► admit ─► preempt ─► resume ─► gap ─► finish

Invariant: nothing in it happened after the step at the cursor; a request's end comes last in its step.
"""

from bisect import bisect_right
from typing import Any

from workbench.look.words import Words
from workbench.tui.answers import Answers
from workbench.tui.causes import gap_entry, miss_entry
from workbench.tui.log import Entry, entry_of_story, joined_skips, since_arrival
from workbench.tui.model import Model


def story_of(model: Model, request_id: int, answers: Answers, words: Words) -> list[Entry]:
    """Its lines, oldest first; the trace is asked in the background."""
    request = model.request(request_id)
    if not request:
        return []
    told = answers.ask("request_story_codes", request=request_id) or []
    rows = [row for row in told if _has_been(model, row)]
    entries = [entry_of_story(row, request_id) for row in rows]
    if request["arrival_ns"]:
        entries.insert(0, Entry(_arrival_step(model, request, rows), "arrive", request_id))
    if request["code"] is not None:
        entries.append(_end(model, request))
    found = joined_skips(entries)
    if request["num_cached_tokens"] is not None:
        misses = answers.ask("misses", request=request_id, lang=words.lang) or []
        _add_misses(found, misses, request_id)
    for row in answers.ask("gaps", request=request_id) or ():
        if _has_been(model, row):
            line = gap_entry(row, request_id, words)
            found.insert(bisect_right(found, 2 * line.step, key=_end_last), line)
    return found


def _has_been(model: Model, row: dict[str, Any]) -> bool:
    """It happened up to the cursor, perhaps in an earlier life of the core."""
    here = model.state.engine_id
    return here is not None and (row["engine_id"], row["step"]) <= (here, model.step)


def _add_misses(entries: list[Entry], rows: list[dict[str, Any]], request_id: int) -> None:
    """Under the lookup that found so little."""
    place = next((i for i, e in enumerate(entries) if e.kind in ("lookup", "admit")), None)
    if place is not None:
        step = entries[place].step
        entries[place + 1 : place + 1] = [miss_entry(row, step, request_id) for row in rows]


def _arrival_step(model: Model, request: dict[str, Any], rows: list[dict[str, Any]]) -> int:
    """The step during which it came, if that is at hand; else the first that dealt with it."""
    known: int = rows[0]["step"] if rows else max(0, model.step)
    if rows and rows[0]["engine_id"] != model.state.engine_id:
        return known  # an earlier life's, and only steps of this one are at hand
    for column in model.timeline.upto(known, 10_000):
        if column.row["end_ns"] >= request["arrival_ns"]:
            return column.step
    return known


def _end(model: Model, request: dict[str, Any]) -> Entry:
    last = model.step if request["last_step"] is None else request["last_step"]
    took_ns, args = since_arrival(request, request["end_ns"]), (request["end_a0"],)
    return Entry(last, "finish", request["request_id"], request["code"], args, took_ns=took_ns)


def _end_last(entry: Entry) -> int:
    return 2 * entry.step + (entry.kind == "finish")
