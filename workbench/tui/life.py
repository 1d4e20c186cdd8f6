"""The life of a request as a bar through steps: queue, prefill, first token, decode, preempted.

    ·········▒▒◆▅▅▅▅▅▅✕┄┄┄▒▅▅▅         one cell a step, or more steps a cell, newest at the right

Light is the phase: dots wait, dim computes its prompt, full decodes. What the timeline does not cover is
blank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from workbench.look.palette import label_of
from workbench.tui.brush import Area, Brush
from workbench.tui.canvas import Cell
from workbench.tui.model import Model
from workbench.tui.theme import FULL, PREFILL
from workbench.tui.timeline import Column

RANK = {"x": 6, "f": 5, "p": 4, "d": 3, "s": 2, "a": 1, "q": 1, " ": 0}
"""Of several phases in one cell, the more telling one is drawn."""


@dataclass(frozen=True, slots=True)
class Span:
    """Steps that a bar shows."""

    columns: Sequence[Column]
    per_cell: int

    @property
    def width(self) -> int:
        """Cells that it takes."""
        return ceil(len(self.columns) / self.per_cell)


def span_of(columns: Sequence[Column], width: int) -> Span:
    """The last columns, so many a cell that all fit."""
    per_cell = max(1, ceil(len(columns) / max(1, width)))
    return Span(columns, per_cell)


def phases_of(request: dict[str, Any], columns: Sequence[Column]) -> list[str]:
    """A letter a step: q waits, p prefill, f first token, d decode, s idle, x preempted, a away, blank."""
    request_id, found = request["request_id"], []
    arrival, left = request["arrival_ns"], request["left_ns"]
    first_ns = request["first_token_ns"]
    was_in = False
    for column in columns:
        row = column.row
        seat = column.phases.get(request_id)
        if seat is not None:
            was_in = seat != "x"
            is_first = first_ns is not None and row["start_ns"] <= first_ns <= row["end_ns"]
            found.append("f" if is_first and seat in "pd" else seat)
        elif row["end_ns"] < arrival or (left is not None and row["start_ns"] >= left):
            found.append(" ")
        elif was_in:
            found.append("s")
        else:
            is_back = first_ns is not None and row["start_ns"] > first_ns
            found.append("a" if is_back or "x" in found else "q")
    return found


def draw_life(
    brush: Brush, area: Area, request: dict[str, Any], span: Span, *, bg: str = "ground"
) -> None:
    """One row, its newest step at the right edge of the area."""
    letters = phases_of(request, span.columns)
    groups = [
        letters[max(0, end - span.per_cell) : end] for end in range(len(letters), 0, -span.per_cell)
    ][::-1]
    shown = [max(group, key=lambda letter: RANK[letter]) for group in groups][-area.width :]
    cells = [_cell(brush, letter, request["request_id"], bg) for letter in shown]
    brush.canvas.cells(area.right - len(cells), area.y, cells)


def draw_lives(brush: Brush, area: Area, model: Model) -> None:
    """Those who left last, who runs and who waits: a row each, with its state."""
    state = model.state
    running = set(state.running)
    gone = (r for r in state.requests.values() if r["left_ns"] is not None)
    done = [r for r in gone if r["request_id"] not in running]
    done.sort(key=lambda r: r["left_ns"])
    waiting = state.waiting
    free = max(0, area.height - len(state.running) - min(len(waiting), area.height // 4))
    shown = [("done", r["request_id"]) for r in done[-free:]] if free else []
    shown += [("running", request_id) for request_id in state.running]
    away = [r for r in waiting if state.requests[r]["away_seq"] is not None]
    shown += [("preempted" if r in away else "waiting", r) for r in waiting]
    width = area.width - 18
    span = span_of(model.timeline.upto(model.step, width), width)
    for i, (status, request_id) in enumerate(shown[: area.height]):
        y, request = area.y + i, state.requests.get(request_id)
        if request is None:
            continue
        brush.chip(
            area.x, y, request_id, ghost=status != "running", width=len(label_of(request_id))
        )
        fg = {"preempted": "alarm", "running": "ink"}.get(status, "mute")
        brush.say(area.x + 6, y, brush.words(f"tui.state.{status}"), fg, width=11)
        draw_life(brush, Area(area.x + 18, y, width, 1), request, span)


def _cell(brush: Brush, letter: str, request_id: int, bg: str) -> Cell:
    glyphs, theme = brush.glyphs, brush.theme
    full = brush.style(theme.hue(request_id, FULL), bg)
    match letter:
        case "q":
            return (glyphs.queue, full)
        case "p":
            mark = glyphs.prefill if theme.is_mono else glyphs.full
            return (mark, brush.style(theme.hue(request_id, PREFILL), bg))
        case "f":
            return (glyphs.first, brush.style("hi", bg))
        case "d":
            return (glyphs.decode, full)
        case "s":
            return (glyphs.queue, brush.style("faint", bg))
        case "x":
            return (glyphs.preempt, brush.style("alarm", bg, bold=True))
        case "a":
            return (glyphs.away, brush.style("alarm", bg))
        case _:
            return (" ", brush.style("ink", bg))
