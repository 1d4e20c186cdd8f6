"""Screen 6, Decisions: the log with its reasons, and the selected line explained.

Kinds stand above with how often each happened so far; those that are filtered out are faint. The log
follows the cursor unless a line is selected. Below it, what is known of that line: the sentence in full,
who caused it, its numbers by name, and what came of it.
"""

from typing import Any, ClassVar

from textual.binding import BindingType

from tracing.codes import Code
from tracing.record import Level
from workbench.look.palette import label_of
from workbench.tui import numbers
from workbench.tui.brush import Area, Brush
from workbench.tui.canvas import wrap
from workbench.tui.keys import bindings_of
from workbench.tui.log import KINDS, Entry, folded
from workbench.tui.model import Model, why_none
from workbench.tui.view import View

QUIET_AT_FIRST = ("arrive", "first")
"""Kinds that are filtered out until somebody wants them."""
DETAIL_ROWS = 6


class Decisions(View):
    """The log."""

    NAME = "decisions"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("decisions")

    selected: Entry | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.hidden: set[str] = set(QUIET_AT_FIRST)

    def opens(self) -> tuple[str, int] | None:
        """Down to the step."""
        entry = self._current()
        return None if entry is None else ("step", entry.step)

    def request_at_cursor(self) -> int | None:
        """Whom the line is about."""
        entry = self._current()
        return None if entry is None else entry.request_id

    def block_at_cursor(self) -> int | None:
        """The block of an eviction."""
        entry = self._current()
        return entry.evictions[0].block_id if entry is not None and entry.evictions else None

    def moved(self, rows: int) -> None:
        """Another line."""
        entries = self._entries()
        if not entries:
            return
        place = self._place(entries)
        self.selected = entries[max(0, min(len(entries) - 1, place + rows))]

    def paint(self, brush: Brush, model: Model) -> None:
        """Kinds, log, explanation."""
        height = self.size.height
        top = self._paint_kinds(brush, model)
        brush.canvas.fill(0, top, self.size.width, brush.style("rule"), brush.glyphs.line)
        entries = self._entries()
        room = Area(1, top + 1, self.size.width - 2, height - top - 1 - DETAIL_ROWS)
        if not entries:
            text = why_none(model.state.level, Level.STEPS, "tui.decisions.none", brush.words)
            brush.say(1, top + 1, text, "mute")
            return
        self._paint_log(brush, entries, room)
        detail = Area(1, height - DETAIL_ROWS, self.size.width - 1, DETAIL_ROWS)
        self._paint_detail(brush, model, self._current() or entries[-1], detail)

    # -- parts -----------------------------------------------------------------------------------

    def _paint_kinds(self, brush: Brush, model: Model) -> int:
        """One row, or two if the kinds do not fit; returns the row behind."""
        x, y = 1, 0
        for kind in KINDS:
            n = model.counts.get(kind, 0)
            if kind in ("fault", "control") and not n:
                continue
            word, is_off = brush.words(f"common.{kind}"), kind in self.hidden
            text = f"{brush.glyphs.kind(kind)} {word} "
            if x + len(text) + 8 > self.size.width:
                x, y = 1, y + 1
            fg = "faint" if is_off else "alarm" if kind in ("preempt", "fault") and n else "ink"
            start = x
            x = brush.say(x, y, text, fg)
            x = brush.say(x, y, numbers.count(n), "faint" if is_off else "hi", bold=not is_off)
            self.spot(Area(start, y, x - start, 1), f"toggle_kind('{kind}')")
            x += 2
        return y + 1

    def action_toggle_kind(self, kind: str) -> None:
        """Show a kind, or leave it out."""
        self.hidden ^= {kind}
        self.repaint()

    def _paint_log(self, brush: Brush, entries: list[Entry], room: Area) -> None:
        place = self._place(entries)
        first = max(0, min(place - room.height + 1, len(entries) - room.height))
        if self.selected is not None:
            first = max(0, min(place - room.height // 2, len(entries) - room.height))
        shown = entries[first : first + room.height]
        chip = max(4, brush.chip_width([entry.request_id for entry in shown]))
        before: int | None = None
        for i, entry in enumerate(shown):
            line = Area(room.x, room.y + i, room.width, 1)
            is_selected = self.selected is not None and first + i == place
            with_step = entry.step != before or is_selected
            brush.entry(
                line, entry, self.say, step=with_step, chip_width=chip, selected=is_selected
            )
            before = entry.step
            self.spot(line, f"pick({first + i})")

    def action_pick(self, place: int) -> None:
        """Select a line."""
        entries = self._entries()
        if place < len(entries):
            self.selected = entries[place]
            self.repaint()

    def _paint_detail(self, brush: Brush, model: Model, entry: Entry, area: Area) -> None:
        words = brush.words
        name = model.reasons.name(entry.code) if entry.code is not None else ""
        who = "" if entry.request_id is None else f" {label_of(entry.request_id)}"
        kind = words(f"common.{entry.kind}")
        brush.heading(area, words("tui.decisions.title", kind=kind + who, step=entry.step), name)
        y, x = area.y + 1, area.x + 9
        lines = wrap(self.say(entry), area.right - x)[:2]
        brush.say(area.x, y, words("tui.decisions.what"), "mute")
        for line in lines:
            brush.say(x, y, line, "hi")
            y += 1
        if entry.other_id is not None:
            brush.say(area.x, y, words("tui.decisions.cause"), "mute")
            after = brush.chip(x, y, entry.other_id, width=4)
            self.spot(Area(x, y, after - x, 1), f"screen.open_request({entry.other_id})")
            y += 1
        numbers_ = self._numbers(model, entry)
        if numbers_ and y < area.y + area.height:
            brush.say(area.x, y, words("tui.decisions.numbers"), "mute")
            brush.say(x, y, numbers_, width=area.right - x)
            y += 1
        after_text = self._after(model, entry)
        if after_text and y < area.y + area.height:
            brush.say(area.x, y, words("tui.decisions.after"), "mute")
            brush.say(x, y, after_text, width=area.right - x)

    def _numbers(self, model: Model, entry: Entry) -> str:
        """The recorded arguments by their names."""
        if entry.code is None or entry.evictions:
            return ""
        names = model.reasons.args(entry.code)
        pairs = zip(names, entry.args, strict=False)
        return "  ".join(f"{name} {value}" for name, value in pairs if value is not None)

    def _after(self, model: Model, entry: Entry) -> str:
        """What came of a preemption, if that is known by now."""
        if entry.kind != "preempt" or entry.request_id is None:
            return ""
        rows = self.desk.answers.ask("request_story_codes", request=entry.request_id) or []
        for row in rows:
            if row["code"] == Code.ADMIT_RESUMED and row["step"] > entry.step:
                key = "tui.decisions.resumed"
                return self.desk.words(key, step=row["step"], cached=row["a3"], n=row["a0"])
        return self.desk.words("tui.decisions.not_resumed")

    # -- the lines -------------------------------------------------------------------------------

    def _entries(self) -> list[Entry]:
        model = self.model
        if model is None:
            return []
        entries = model.timeline.entries(model.step, 2000)
        return folded([entry for entry in entries if entry.kind not in self.hidden])

    def _place(self, entries: list[Entry]) -> int:
        if self.selected is not None and self.selected in entries:
            return entries.index(self.selected)
        return len(entries) - 1

    def _current(self) -> Entry | None:
        entries = self._entries()
        return entries[self._place(entries)] if entries else None
