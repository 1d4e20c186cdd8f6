"""Rates over the last steps, from the rows that are at hand.

The definitions are those of `rates_between.sql`; a test holds both equal. They are computed here because
they change with every step, and a query for each would keep the recorder busy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from workbench.tui.timeline import BUCKET, Bucket, Column

NUM_STEPS = 240


@dataclass(frozen=True, slots=True)
class Rates:
    """None: cannot be said, because there was nothing to divide by."""

    num_steps: int
    prefill_per_s: float | None
    decode_per_s: float | None
    budget_share: float | None
    hit_share: float | None
    steps_per_s: float | None


def rates_of(columns: Sequence[Column]) -> Rates:
    """Over these steps."""
    rows = [column.row for column in columns]
    seconds = (rows[-1]["end_ns"] - rows[0]["start_ns"]) / 1e9 if rows else 0.0
    prefill = sum(row["num_prefill_tokens"] for row in rows)
    decode = sum(
        row["num_tokens"] - row["num_prefill_tokens"] - row["num_draft_tokens"] for row in rows
    )
    busy = [row for row in rows if row["mode"] != "empty"]
    hits, asked = _lookups(columns)
    return Rates(
        num_steps=len(rows),
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
    rates, last = rates_of(columns), columns[-1].row
    return Bucket(
        prefill=rates.prefill_per_s,
        decode=rates.decode_per_s,
        budget=rates.budget_share,
        hit=rates.hit_share,
        kv=kv_share(last),
        waiting=float(last["num_waiting"]),
        preempted=float(sum(column.row["num_preempted"] for column in columns)),
    )


def kv_share(row: dict[str, Any]) -> float | None:
    """Blocks in use of all blocks."""
    whole = row["used_blocks"] + row["cached_free_blocks"] + row["free_blocks"]
    return _ratio(row["used_blocks"], whole)


def _lookups(columns: Sequence[Column]) -> tuple[int, int]:
    """Prompt tokens found in the prefix cache at admission, and looked up."""
    return sum(column.hits for column in columns), sum(column.asked for column in columns)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
