"""The answer to a prompt that was sent from here, as text that can be drawn.

    pieces of the stream ─► desk.drafts ─► plain text ─► last lines on the Request screen, all of it by `a`

Invariant: what a model says reaches no terminal unfiltered: nothing but printable characters and line breaks.
"""

from typing import Any

from workbench.tui.brush import Area, Brush
from workbench.tui.canvas import wrap
from workbench.tui.desk import Desk

MIN_ROWS = 3
"""Of text, where the screen is not too small for them; more, where the story below leaves room."""


def answer_of(desk: Desk, request: dict[str, Any]) -> str | None:
    """As far as it has come; None: it is the answer to nothing that was sent from here."""
    answer = desk.drafts.get(request.get("external_id") or "")
    if answer is None:
        return None
    plain = answer.expandtabs(4).strip()
    return "".join(char if char.isprintable() or char == "\n" else " " for char in plain)


def draw_answer(brush: Brush, area: Area, answer: str, num_told: int) -> int:
    """Its last lines, in the rows that so many lines of a story leave; returns the row below."""
    words, text = brush.words, answer or brush.glyphs.more
    lines = [line for part in text.split("\n") for line in wrap(part, area.width - 2)]
    room = max(1, min(MIN_ROWS, area.height // 4), area.height - 3 - max(1, num_told))
    note = words("tui.request.answer_note", n=len(lines)) if len(lines) > room else ""
    brush.heading(area, words("tui.request.answer"), note)
    shown = lines[-room:]
    for i, line in enumerate(shown):
        brush.say(area.x, area.y + 1 + i, line)
    return area.y + len(shown) + 2
