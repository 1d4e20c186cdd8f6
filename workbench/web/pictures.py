"""A run at a glance: the small picture on its card, as numbers, and the card's five key numbers.

    waiting      a silhouette: how many requests waited, over the run
    preempted    ticks above it
    lanes        one lane per running slot; a request takes the lowest free lane and keeps it until it leaves

A lane is a seat, not a place in the batch: that changes each step and would look like noise. Where a run has
more steps than the picture could show lanes of, it gets a second silhouette instead: how many ran.

Invariant: two bars of one lane never overlap.
"""

import heapq
from typing import Any

from tracing.reader import Run
from workbench.web.queries import VICTIMS, bins

COLUMNS = 215
"""Of the silhouettes: two pixels each."""
MAX_LANE_STEPS = 1_200

Stay = tuple[int, int, int, int]
"""Request, first step, first step after its prompt, last step: from an admission to leaving the batch."""


def picture(run: Run) -> dict[str, Any]:
    """Silhouettes, ticks, lanes (`[lane, request, first, decodes, last]`) and numbers of the run.

    A core that was started again is another engine: the picture shows the one that went furthest.
    """
    (facts,) = run.query("summary").dicts()
    engine, a, b = _longest(run)
    numbers = {
        "requests": facts["requests"],
        "steps": facts["steps"],
        "budget_used": _budget_used(run.query("budget_use").dicts()),
        "prefix_hits": _first(
            [r for r in run.query("hit_rate").dicts() if not r["resumed"]], "rate"
        ),
        "preemptions": facts["preemptions"],
    }
    if engine is None:
        return {"numbers": numbers, "first": 0, "last": 0, "columns": [], "rows": [], "lanes": []}
    short = b - a < MAX_LANE_STEPS
    return {
        "numbers": numbers,
        "first": a,
        "last": b,
        **bins(run, engine=engine, a=a, b=b, most=COLUMNS),
        "lanes": lanes(_stays(run, engine)) if short else None,
    }


def lanes(stays: list[Stay]) -> list[tuple[int, int, int, int, int]]:
    """Seat each stay in the lowest lane that is free: (lane, request, first, decodes, last)."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    seated = []
    for request, first, decodes, last in sorted(stays, key=lambda stay: (stay[1], stay[0])):
        while busy and busy[0][0] < first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (last, lane))
        seated.append((lane, request, first, decodes, last))
    return seated


def _stays(run: Run, engine: int) -> list[Stay]:
    rows = run.sql(
        "SELECT request_id, step, is_prefill FROM step_request"
        f" WHERE engine_id = {engine} ORDER BY request_id, step"
    ).rows
    lost = run.sql(
        f"SELECT request_id, step FROM decision WHERE engine_id = {engine} AND code IN {VICTIMS}"
    ).rows
    preempted = {tuple(row) for row in lost}
    stays: list[Stay] = []
    for request, step, is_prefill in rows:
        after = step + 1 if is_prefill else step
        if stays and stays[-1][0] == request:
            _, first, decodes, last = stays[-1]
            if not any((request, s) in preempted for s in range(last + 1, step + 1)):
                stays[-1] = (request, first, after if is_prefill else decodes, step)
                continue
        stays.append((request, step, after, step))
    return stays


def _longest(run: Run) -> tuple[int | None, int, int]:
    """The engine with most steps, its first and its last; None: no steps were recorded."""
    rows = run.sql(
        "SELECT engine_id, min(step), max(step) FROM step GROUP BY ALL"
        " ORDER BY count(*) DESC, engine_id LIMIT 1"
    ).rows
    return rows[0] if rows else (None, 0, 0)


def _budget_used(engines: list[dict[str, Any]]) -> float | None:
    """Of what all steps of all engines might have computed, the share that they did."""
    offered = sum(use["offered_tokens"] for use in engines)
    return sum(use["used_tokens"] for use in engines) / offered if offered else None


def _first(rows: list[dict[str, Any]], name: str) -> float | None:
    return rows[0][name] if rows else None
