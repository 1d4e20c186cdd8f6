"""Marks that several screens draw: chips, panels, sparklines, meters, lines of the log.

A brush is a canvas with the theme, the glyphs and the words to draw on it with. It knows how a thing
looks and nothing about where things stand.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style

from workbench.look.palette import label_of
from workbench.look.words import Words
from workbench.tui import numbers
from workbench.tui.canvas import Canvas, Cell, pad
from workbench.tui.glyphs import Glyphs
from workbench.tui.log import Entry
from workbench.tui.theme import GHOST, HATCH, Theme

KIND_WIDTH = 8
"""Cells of an event's kind: the longest is `preempt`, and one to part."""


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of cells."""

    x: int
    y: int
    width: int
    height: int

    @property
    def right(self) -> int:
        """The column behind it."""
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class Brush:
    """Draws on a canvas."""

    canvas: Canvas
    theme: Theme
    glyphs: Glyphs
    words: Words

    # -- text ------------------------------------------------------------------------------------

    def style(self, fg: str = "ink", bg: str = "ground", *, bold: bool = False) -> Style:
        """A style of the theme."""
        return self.theme.style(fg, bg, bold=bold)

    def say(
        self,
        x: int,
        y: int,
        text: str,
        fg: str = "ink",
        *,
        bg: str = "ground",
        bold: bool = False,
        width: int | None = None,
    ) -> int:
        """Text; returns the cell behind it."""
        return self.canvas.put(x, y, text, self.style(fg, bg, bold=bold), width=width)

    def number(
        self, right: int, y: int, text: str, *, strong: bool = True, bg: str = "ground"
    ) -> None:
        """A number that ends before `right`; what is nothing or zero is faint."""
        if text.strip() in (numbers.NOTHING, "·"):
            style = self.style("faint", bg)
        else:
            style = self.style("hi" if strong else "ink", bg, bold=strong)
        self.canvas.put_right(right, y, text, style)

    def chip(
        self, x: int, y: int, request_id: int | None, *, ghost: bool = False, width: int = 0
    ) -> int:
        """A request's name on its colour, as wide as the name or wider; returns the cell behind it."""
        if request_id is None:
            return self.say(x, y, pad(numbers.NOTHING, width or 1), "faint")
        name = label_of(request_id)
        if self.theme.is_mono:
            name = f"({name})" if ghost else f"[{name}]"
        return self.canvas.put(x, y, pad(name, width), self.theme.chip(request_id, ghost=ghost))

    def chip_width(self, request_ids: Sequence[int | None]) -> int:
        """Cells that the longest of these names takes."""
        extra = 2 if self.theme.is_mono else 0
        return max((len(label_of(r)) + extra for r in request_ids if r is not None), default=1)

    # -- frames ----------------------------------------------------------------------------------

    def heading(self, area: Area, title: str, note: str = "") -> None:
        """A title, a rule, and a note at its right end, on the area's first row."""
        y, rule = area.y, self.style("rule")
        end = self.say(area.x, y, title, bold=True, width=area.width)
        self.canvas.fill(end + 1, y, area.right - end - 1, rule, self.glyphs.line)
        if note:
            room = area.right - end - 4
            start = area.right - 1 - min(cell_len(note), max(0, room))
            self.say(start - 1, y, " ", "mute")
            after = self.say(start, y, note, "mute", width=max(0, room))
            self.canvas.put(after, y, " " * max(0, area.right - after), self.style("rule"))

    def box(self, area: Area, title: str, note: str = "") -> Area:
        """A rounded box with title and note in its upper edge; returns the room inside."""
        c, rule = self.glyphs.corners, self.style("rule")
        right, bottom = area.right - 1, area.y + area.height - 1
        for y, left_corner, right_corner in ((area.y, c[0], c[1]), (bottom, c[2], c[3])):
            self.canvas.fill(area.x, y, area.width, rule, self.glyphs.line)
            self.canvas.put(area.x, y, left_corner, rule)
            self.canvas.put(right, y, right_corner, rule)
        for y in range(area.y + 1, bottom):
            self.canvas.put(area.x, y, c[4], rule)
            self.canvas.put(right, y, c[4], rule)
        self.say(area.x + 2, area.y, f" {title} ", bold=True, width=area.width - 4)
        if note:
            room = area.width - cell_len(title) - 10
            if room >= 4:
                text = f" {note} "
                self.say(right - 1 - min(cell_len(text), room), area.y, text, "mute", width=room)
        return Area(area.x + 2, area.y + 1, area.width - 4, area.height - 2)

    # -- pictures --------------------------------------------------------------------------------

    def spark(
        self,
        x: int,
        y: int,
        values: Sequence[float | None],
        width: int,
        *,
        top: float | None = None,
        fg: str = "series",
    ) -> None:
        """Bars, the newest at the right; None is blank, zero a baseline. `top`: else the own maximum."""
        shown = list(values)[-width:]
        scale = top if top is not None else max((v for v in shown if v is not None), default=0)
        marks, glyphs = numbers.levels(shown, scale, len(self.glyphs.spark)), self.glyphs
        bar, base, none = self.style(fg), self.style("rule"), self.style()
        cells: list[Cell] = []
        for mark in marks:
            if mark is None:
                cells.append((" ", none))
            elif mark == 0:
                cells.append((glyphs.spark[0], base))
            else:
                cells.append((glyphs.spark[mark - 1], bar))
        self.canvas.cells(x + width - len(cells), y, cells)

    def meter(self, x: int, y: int, share: float, width: int, fg: str = "series") -> None:
        """A bar filled from the left, in eighths of a cell."""
        eighths = round(max(0.0, min(1.0, share)) * width * 8)
        if share > 0:
            eighths = max(1, eighths)
        ground = self.style(fg, "raised")
        self.canvas.fill(x, y, width, ground)
        self.canvas.fill(x, y, eighths // 8, self.style(fg), self.glyphs.full)
        if eighths % 8 and eighths // 8 < width:
            self.canvas.put(x + eighths // 8, y, self.glyphs.eighths[eighths % 8 - 1], ground)

    def hatch(self, x: int, y: int, width: int, request_id: int | None = None) -> None:
        """Paid for and not used."""
        fg = "faint" if request_id is None else self.theme.hue(request_id, HATCH)
        self.canvas.fill(x, y, width, self.style(fg), self.glyphs.hatch)

    def entry(
        self,
        area: Area,
        entry: Entry,
        say: Callable[[Entry], str],
        *,
        step: bool = True,
        chip_width: int = 4,
        selected: bool = False,
    ) -> None:
        """One line of the log: step, kind, whom, why."""
        bg = "raised" if selected else "ground"
        x, y, is_alarm = area.x, area.y, entry.kind in ("preempt", "fault")
        if selected:
            self.canvas.fill(0, y, self.canvas.width, self.style("ink", bg))
            self.canvas.put(0, y, self.glyphs.pointer, self.style("hi", bg))
        if step:
            self.canvas.put_right(x + 5, y, str(entry.step), self.style("mute", bg))
        fg = "alarm" if is_alarm else "ink"
        mark = self.glyphs.kind(entry.kind)
        self.canvas.put(
            x + 6, y, mark, self.style("alarm" if is_alarm else "hi", bg, bold=is_alarm)
        )
        kind = self.words(f"common.{entry.kind}")
        self.canvas.put(x + 8, y, pad(kind, KIND_WIDTH), self.style(fg, bg, bold=is_alarm))
        after = x + 9 + KIND_WIDTH
        if entry.request_id is not None:
            self.chip(after, y, entry.request_id, ghost=self.is_ghost(entry), width=chip_width)
        x = after + chip_width + 1
        strong = "hi" if entry.kind == "preempt" or selected else "ink"
        self.canvas.put(x, y, say(entry), self.style(strong, bg), width=area.right - x)

    @staticmethod
    def is_ghost(entry: Entry) -> bool:
        """The line is about somebody who has or gets nothing at that moment."""
        return entry.kind in ("arrive", "skip", "evict")


def ghost_ground(theme: Theme, request_id: int) -> str:
    """The ground of what is cached but free, with the hue of its last owner."""
    return theme.hue(request_id, GHOST)
