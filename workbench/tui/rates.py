"""Rates over the last seconds, from the rows that are at hand.

    now - 10 s        first step that ended since       last one            now
    ┊   idle          ├─ step ─┼─ step ─┤   idle   ├─ step ─┤    idle        ┊
                      └──────────────────── seconds ─────────────────────────┘

Idle time before the first of these steps does not count, so a new load is told as fast as it is; idle time
since does, so the rates fall, and are 0 when no step ended in the window. Now is the clock's while a view
follows, and else the end of the step at the cursor: then they are `rates_between.sql` over those steps (a
test holds both equal). They are computed here because they change with every step, and a query for each
would keep the recorder busy. A sparkline's bars are a few steps each, over the time in which those ran.

Invariant: header, Overview, --once and --json say the same rate at the same moment.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from workbench.tui.timeline import BUCKET, MAX_COLUMNS, Bucket, Column, Timeline

WINDOW_SECONDS = 10
"""Of a fast engine fewer: those of the steps that are at hand."""


@dataclass(frozen=True, slots=True)
class Rates:
    """None: cannot be said, because there was nothing to divide by."""

    prefill_per_s: float | None
    decode_per_s: float | None
    budget_share: float | None
    hit_share: float | None
    steps_per_s: float | None


def rates_at(timeline: Timeline, step: int, now_ns: int) -> Rates:
    """Over the last seconds before a moment (epoch ns), of the steps up to one."""
    columns = timeline.upto(step, MAX_COLUMNS)
    since_ns = now_ns - WINDOW_SECONDS * 1_000_000_000
    recent = columns[bisect_right(columns, since_ns, key=lambda column: column.row["end_ns"]) :]
    if recent:
        now_ns = max(now_ns, recent[-1].row["end_ns"])
        return _rates(recent, (now_ns - recent[0].row["start_ns"]) / 1e9)
    nothing = 0.0 if columns else None
    return Rates(nothing, nothing, None, None, nothing)


def _rates(columns: Sequence[Column], seconds: float) -> Rates:
    rows = [column.row for column in columns]
    prefill = sum(row["num_prefill_tokens"] for row in rows)
    decode = sum(
        row["num_tokens"] - row["num_prefill_tokens"] - row["num_draft_tokens"] for row in rows
    )
    busy = [row for row in rows if row["mode"] != "empty"]
    hits, asked = _lookups(columns)
    return Rates(
        prefill_per_s=_ratio(prefill, seconds),
        decode_per_s=_ratio(decode, seconds),
        budget_share=_ratio(
            sum(r["num_tokens"] for r in busy), sum(r["token_budget"] for r in busy)
        ),
        hit_share=_ratio(hits, asked),
        steps_per_s=_ratio(len(rows), seconds),
    )


def buckets(columns: Sequence[Column], value: str, kept: dict[int, Bucket]) -> list[float | None]:
    """A series for a sparkline, one value per `BUCKET` steps, the newest last.

    `value`: a field of `Bucket`; `kept`: buckets that are complete, so that they are added up once.
    """
    found: list[float | None] = []
    for number, group in groupby(columns, key=lambda column: column.step // BUCKET):
        bucket = kept.get(number)
        if bucket is None:
            whole = list(group)
            bucket = _bucket(whole)
            if len(whole) == BUCKET:
                kept[number] = bucket
        found.append(getattr(bucket, value))
    return found


def _bucket(columns: Sequence[Column]) -> Bucket:
    rates, last = _rates(columns, _busy_seconds(columns)), columns[-1].row
    return Bucket(
        prefill=rates.prefill_per_s,
        decode=rates.decode_per_s,
        budget=rates.budget_share,
        hit=rates.hit_share,
        kv=kv_share(last),
        waiting=float(last["num_waiting"]),
        preempted=float(sum(column.row["num_preempted"] for column in columns)),
    )


def _busy_seconds(columns: Sequence[Column]) -> float:
    """In which one of the steps ran; they may overlap."""
    spent_ns, until_ns = 0, 0
    for column in columns:
        start_ns, end_ns = column.row["start_ns"], column.row["end_ns"]
        spent_ns += max(0, end_ns - max(start_ns, until_ns))
        until_ns = max(until_ns, end_ns)
    return spent_ns / 1e9


def kv_share(row: dict[str, Any]) -> float | None:
    """Blocks in use of all blocks."""
    whole = row["used_blocks"] + row["cached_free_blocks"] + row["free_blocks"]
    return _ratio(row["used_blocks"], whole)


def _lookups(columns: Sequence[Column]) -> tuple[int, int]:
    """Prompt tokens found in the prefix cache at admission, and looked up."""
    return sum(column.hits for column in columns), sum(column.asked for column in columns)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
