"""The steps picture's data: one column a step, one lane a seat, and the log beside it.

A request takes the lowest free seat when it is admitted and keeps it until it ends or loses its blocks, so
its lane stays where it is; drawn in schedule order, the picture would be a rainbow wall.

    seat 0  81p 81d 81d 81d  .   91p 91p 91d      p prefill, d decode, x preempted, s in the batch, but idle
    seat 1  82d 82d 82x  .   92p 92d 92d 92d

Invariant: no two requests share a seat in one step.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.replay_facts import Part, StepFacts
from workbench.tui.canvas import Cell
from workbench.tui.log import Entry, entries_of

MAX_COLUMNS = 512
MAX_TOLD = 4096
NUM_SAMPLES = 40
BUCKET = 4
"""Steps in one bar of a sparkline."""


@dataclass(slots=True)
class Column:
    """One step."""

    step: int
    row: dict[str, Any]
    """Table step."""
    parts: list[Part]
    """What each sequence had in it, in schedule order."""
    seats: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Seat -> (request, p | d | s | x)."""
    given: dict[int, int] = field(default_factory=dict)
    """Block given out or shared in this step -> request."""
    hits: int = 0
    """Prompt tokens found in the prefix cache at admissions in this step."""
    bar: tuple[object, list[Cell]] | None = None
    """Its tokens as they were drawn last, and for what."""
    lanes: tuple[object, list[Cell]] | None = None
    """The same of its seats."""
    asked: int = 0
    """Prompt tokens that were looked up."""
    entries: list[Entry] = field(default_factory=list)
    _phases: dict[int, str] | None = None

    @property
    def phases(self) -> dict[int, str]:
        """Request -> p | d | s | x; put together when it is first asked for."""
        if self._phases is None:
            self._phases = dict(self.seats.values())
        return self._phases


@dataclass(frozen=True, slots=True)
class Bucket:
    """`BUCKET` steps added up, for sparklines; None: nothing to divide by."""

    prefill: float | None
    decode: float | None
    budget: float | None
    hit: float | None
    kv: float | None
    waiting: float
    preempted: float


class Timeline:
    """The last steps up to the cursor, and some after it in a replay."""

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self.samples: dict[str, deque[int]] = {
            name: deque(maxlen=NUM_SAMPLES) for name in ("queue", "ttft", "itl", "e2e")
        }
        """The last latencies in ns, for sparklines; itl: the longest gap of a step."""
        self.buckets: dict[int, Bucket] = {}
        """Complete ones, by step // BUCKET."""
        self._seat_of: dict[int, int] = {}
        self._told: dict[tuple[str, int | None], None] = {}
        """Arrivals and ends that are in the log, newest last."""
        self._loose: list[Entry] = []
        """What happened after the last column, until there is another."""

    def add(self, facts: StepFacts, requests: Mapping[int, dict[str, Any]]) -> list[Entry]:
        """Append what `State.apply` says of a step; returns the lines that are new."""
        if facts.row is not None and facts.step <= (self.last_step or -1):
            return []  # a frame may repeat what a query has told already
        entries = [e for e in entries_of(facts, requests) if self._is_news(e)]
        self._sample(facts, requests)
        if facts.row is None:
            self._add_late(entries)
        else:
            self._add_column(facts, entries)
        return entries

    @property
    def loose(self) -> list[Entry]:
        """What happened after the last step."""
        return self._loose

    @property
    def first_step(self) -> int | None:
        """The oldest step that is here."""
        return self.columns[0].step if self.columns else None

    @property
    def last_step(self) -> int | None:
        """The newest step that is here."""
        return self.columns[-1].step if self.columns else None

    def upto(self, step: int, n: int) -> list[Column]:
        """The last n columns up to a step, oldest first."""
        end = bisect_right(self.columns, step, key=lambda column: column.step)
        return self.columns[max(0, end - n) : end]

    def column(self, step: int) -> Column | None:
        """The column of a step, if it is here."""
        found = self.upto(step, 1)
        return found[0] if found and found[0].step == step else None

    def entries(self, step: int, n: int) -> list[Entry]:
        """The last n lines of the log up to a step, oldest first; with what came after the last step."""
        found: list[Entry] = list(self._loose) if step >= (self.last_step or 0) else []
        for column in reversed(self.upto(step, MAX_COLUMNS)):
            found[:0] = column.entries
            if len(found) >= n:
                break
        return found[-n:]

    def _add_column(self, facts: StepFacts, entries: list[Entry]) -> None:
        assert facts.row is not None
        column = Column(
            facts.step, facts.row, facts.parts, entries=self._loose + entries, given=facts.given
        )
        self._loose = []
        present = {part.request_id for part in facts.parts} if facts.left else ()
        for request_id in facts.left:
            if request_id not in present:  # it left before the step
                self._seat_of.pop(request_id, None)
        for request_id in facts.preempted:
            seat = self._seat_of.pop(request_id, None)
            if seat is not None:
                column.seats[seat] = (request_id, "x")
        column.hits = sum(part.num_cached_tokens for part in facts.admitted)
        column.asked = sum(part.num_tokens for part in facts.admitted)
        for part in facts.parts:
            seat = self._seat_of.get(part.request_id)
            if seat is None:
                seat = self._take_seat(part.request_id, column)
            column.seats[seat] = (part.request_id, "p" if part.is_prefill else "d")
        if len(facts.parts) < len(self._seat_of):  # some idle
            for request_id, seat in self._seat_of.items():
                column.seats.setdefault(seat, (request_id, "s"))
        for request_id in facts.left:
            self._seat_of.pop(request_id, None)
        self.columns.append(column)
        if len(self.columns) > MAX_COLUMNS * 5 // 4:
            del self.columns[:-MAX_COLUMNS]
            self.buckets.clear()

    def _take_seat(self, request_id: int, column: Column) -> int:
        taken = set(self._seat_of.values()) | set(column.seats)
        seat = next(i for i in range(len(taken) + 1) if i not in taken)
        self._seat_of[request_id] = seat
        return seat

    def _is_news(self, entry: Entry) -> bool:
        """An arrival or an end is told once, though a query and a frame may both bring it."""
        if entry.kind not in ("arrive", "finish"):
            return True
        key = (entry.kind, entry.request_id)
        if key in self._told:
            return False
        self._told[key] = None
        if len(self._told) > MAX_TOLD:
            del self._told[next(iter(self._told))]
        return True

    def _add_late(self, entries: list[Entry]) -> None:
        """Put an end at the step where it was, if that is here; the rest waits for the next column."""
        for entry in entries:
            column = self.column(entry.step) if entry.kind == "finish" else None
            (column.entries if column is not None else self._loose).append(entry)

    def _sample(self, facts: StepFacts, requests: Mapping[int, dict[str, Any]]) -> None:
        for request_id, ts_ns in facts.first_tokens:
            request = requests.get(
                request_id
            )  # None: one frame told of its end too, and of many others
            if request is not None and request["arrival_ns"]:
                self.samples["ttft"].append(ts_ns - request["arrival_ns"])
        if facts.max_gap_ns is not None:
            self.samples["itl"].append(facts.max_gap_ns)
        for end in facts.ends:
            request = requests.get(end["request_id"])
            if request is not None and request["arrival_ns"]:
                self.samples["e2e"].append(end["end_ns"] - request["arrival_ns"])
        self.samples["queue"].extend(facts.queue_ns)
