"""What happened, as lines of a log: a kind, about whom, and the recorded reason as a sentence.

Kinds are the ones that `next_moment.sql` finds and `moment_counts.sql` counts. Sentences come whole from
the trace's own catalogue of reasons; only what has no reason code (an arrival, a first token, a run of
evictions) is said in the screens' own words.

Invariant: one fact, one entry, in the order in which the core recorded them; the counts by kind of a run's
log are those of the queries.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tracing.codes import Code
from tracing.keyframe import PREEMPTED
from workbench.look.palette import label_of
from workbench.look.words import Words
from workbench.replay_facts import ADMITTED, Part, StepFacts
from workbench.replay_pool import Eviction
from workbench.tui import numbers

KINDS = (
    *("arrive", "admit", "resume", "chunk", "skip", "preempt", "evict", "first", "finish"),
    *("fault", "control"),
)
_QUIET = (Code.BEHIND, Code.ORDER_KEY, Code.ORDER_FALLBACK, Code.RETRACT_EVICT, Code.RATIO_SET)
"""Decisions that only say how another one came about."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line."""

    step: int
    kind: str
    request_id: int | None
    code: int | None = None
    args: tuple[int | None, ...] = ()
    other_id: int | None = None
    num: int = 1
    """How many things: blocks of an eviction, steps of a skip that repeats."""
    evictions: tuple[Eviction, ...] = ()
    """Neighbours for the same one, told as one."""
    last_step: int | None = None
    """Of a repeated skip."""
    took_ns: int | None = None
    """Of a first token and an end: since the arrival."""
    text: str | None = None
    """The whole sentence, if whoever made the line knew it."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A row of table reason."""

    name: str
    args: tuple[str, ...]
    en: str
    zh: str


class Reasons:
    """The reasons that a run carries, by code."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._by_code = {
            row["code"]: Reason(row["name"], tuple(row["args"].split(",")), row["en"], row["zh"])
            for row in rows
        }

    def name(self, code: int) -> str:
        """The code's name."""
        known = self._by_code.get(code)
        return known.name if known else str(code)

    def args(self, code: int) -> tuple[str, ...]:
        """What the code's arguments are called."""
        known = self._by_code.get(code)
        return known.args if known else ()

    def sentence(self, entry: Entry, words: Words) -> str:
        """The entry's reason, with its arguments filled in."""
        assert entry.code is not None
        known = self._by_code.get(entry.code)
        if known is None:
            return str(entry.code)
        text = known.zh if words.lang == "zh" else known.en
        for i, value in enumerate(entry.args):
            text = text.replace(f"{{a{i}}}", "?" if value is None else str(value))
        return text.replace("{req}", label_of(entry.request_id)).replace(
            "{oth}", label_of(entry.other_id)
        )


def entries_of(facts: StepFacts, requests: Mapping[int, dict[str, Any]]) -> list[Entry]:
    """The lines that a step adds; `requests` are the state's."""
    step = facts.step
    found = [Entry(step, "arrive", request_id) for request_id in facts.arrivals]
    told = [(row["seq"], _decision(row)) for row in facts.decisions]
    told += [(eviction.seq, _eviction(eviction, step)) for eviction in facts.evictions]
    told.sort(key=lambda item: item[0])  # as the core recorded them
    found += [entry for _, entry in told if entry is not None]
    found += [admission(part) for part in facts.admitted]
    found += [
        Entry(step, "first", who, took_ns=since_arrival(requests.get(who), ts_ns))
        for who, ts_ns in facts.first_tokens
    ]
    found += [_end(row, requests, step) for row in facts.ends]
    found += [entry for entry in (_event(row, step) for row in facts.events) if entry is not None]
    return found


def entry_of_story(row: dict[str, Any], request_id: int) -> Entry:
    """A row of `request_story_codes.sql` as a line."""
    code, args = row["code"], (row["a0"], row["a1"], row["a2"], row["a3"])
    if code < Code.CUT_BUDGET:
        admitted = "resume" if code == Code.ADMIT_RESUMED else "admit"
        kind = admitted if code in ADMITTED else "chunk"
    elif code >= Code.HIT_NONE:
        kind = "lookup"
    else:
        kind = "chunk" if code < Code.SKIP_ZERO else "preempt" if code in PREEMPTED else "skip"
    return Entry(row["step"], kind, request_id, code, args, row["other_id"])


def folded(entries: list[Entry]) -> list[Entry]:
    """The same lines with neighbours joined: evictions for the same one, a skip that repeats step by step."""
    found: list[Entry] = []
    for entry in entries:
        last = found[-1] if found else None
        if last is not None and _is_same_eviction(last, entry):
            found[-1] = Entry(
                *(last.step, "evict", last.request_id, last.code, last.args, last.other_id),
                num=last.num + entry.num,
                evictions=last.evictions + entry.evictions,
            )
        else:
            found.append(entry)
    return found


def joined_skips(entries: list[Entry]) -> list[Entry]:
    """Runs of the same skip, step after step, as one line with its last step."""
    found: list[Entry] = []
    for entry in entries:
        last = found[-1] if found else None
        if last is not None and entry.kind == last.kind == "skip" and last.code == entry.code:
            found[-1] = Entry(
                *(last.step, "skip", last.request_id, last.code, last.args, last.other_id),
                num=last.num + 1,
                last_step=entry.step,
            )
        else:
            found.append(entry)
    return found


def say(
    entry: Entry, reasons: Reasons, words: Words, requests: Mapping[int, dict[str, Any]]
) -> str:
    """The entry as a sentence."""
    if entry.text is not None:
        return entry.text
    took = numbers.duration(entry.took_ns).strip()
    match entry.kind:
        case "arrive":
            return _say_arrival(requests.get(entry.request_id or -1, {}), words)
        case "first":
            return words("tui.why.first", time=took)
        case "evict" if entry.evictions:
            return _say_eviction(entry, words)
        case "finish":
            reason = reasons.sentence(entry, words)
            return words("tui.why.finish", reason=reason, time=took)
        case "skip" if entry.last_step is not None:
            reason = reasons.sentence(entry, words)
            return words("tui.why.skip_run", reason=reason, n=entry.num, step=entry.last_step)
        case _:
            return reasons.sentence(entry, words)


def _decision(row: dict[str, Any]) -> Entry | None:
    code = row["code"]
    if code in _QUIET or code >= Code.HIT_NONE:
        return None
    args = (row["a0"], row["a1"], row["a2"], row["a3"])
    kind = "chunk" if code < 300 else "preempt" if code in PREEMPTED else "skip"
    return Entry(row["step"], kind, row["request_id"], code, args, row["other_id"])


def _eviction(e: Eviction, step: int) -> Entry:
    args, num = (e.block_id, e.idle_steps), abs(e.num_blocks)
    return Entry(step, "evict", e.owner, Code.KV_EVICT, args, e.other, num, (e,))


def admission(part: Part) -> Entry:
    """A sequence's part in a step, with its own reason."""
    args = (
        *(part.num_scheduled_tokens, part.num_computed_tokens),
        *(part.num_tokens, part.num_cached_tokens),
    )
    admitted = "resume" if part.code == Code.ADMIT_RESUMED else "admit"
    kind = admitted if part.code in ADMITTED else "chunk"
    return Entry(part.step, kind, part.request_id, part.code, args)


def _end(row: dict[str, Any], requests: Mapping[int, dict[str, Any]], step: int) -> Entry:
    """At the last step that it was part of, if front ends have said which."""
    request = requests.get(row["request_id"])
    last = None if request is None else request.get("last_step")
    at, took_ns = step if last is None else last, since_arrival(request, row["end_ns"])
    return Entry(at, "finish", row["request_id"], row["code"], (row["a0"],), took_ns=took_ns)


def _event(row: dict[str, Any], step: int) -> Entry | None:
    code = row["code"]
    if code in (Code.RUN_START, Code.RUN_END):
        return None
    args = (row["a0"], row["a1"], row["a2"], row["a3"])
    at = step if row["step"] is None else row["step"]
    kind = "control" if code >= Code.RUN_START else "fault"
    return Entry(at, kind, row["request_id"], code, args)


def _is_same_eviction(a: Entry, b: Entry) -> bool:
    return (
        a.kind == b.kind == "evict"
        and bool(a.evictions and b.evictions)
        and (a.step, a.request_id, a.other_id) == (b.step, b.request_id, b.other_id)
    )


def _say_arrival(request: Mapping[str, Any], words: Words) -> str:
    prompt, limit = request.get("num_prompt_tokens"), request.get("max_tokens")
    key = "tui.why.arrive" if limit is not None else "tui.why.arrive_open"
    return words(key, prompt="?" if prompt is None else prompt, limit=limit)


def _say_eviction(entry: Entry, words: Words) -> str:
    first, other = entry.evictions[0], label_of(entry.other_id)
    if entry.num > 1:
        return words("tui.why.evict_many", n=entry.num, owner=label_of(first.owner), other=other)
    return words("tui.why.evict", block=first.block_id, idle=first.idle_steps, other=other)


def since_arrival(request: Mapping[str, Any] | None, at_ns: int | None) -> int | None:
    """How long it had been there; None: its arrival is not known."""
    if request is None or not request["arrival_ns"] or at_ns is None:
        return None
    return int(at_ns) - int(request["arrival_ns"])


Say = Callable[[Entry], str]
