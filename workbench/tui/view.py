"""A screen is a painter: it draws all of itself on a canvas, and only rows that changed reach the terminal.

    session changes ─► repaint() ─► paint(brush) ─► rows compared with the last ones ─► refresh(changed rows)

Invariant: what is on the terminal is what the last `paint` drew; nothing else writes to a view.
"""

import time
from collections.abc import Callable
from typing import ClassVar

from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from workbench.tui.brush import Area, Brush
from workbench.tui.canvas import Canvas, Patch
from workbench.tui.desk import NUMBERS_PER_SECOND, Desk
from workbench.tui.log import Entry, say
from workbench.tui.model import Model

BOXED_WIDTH, BOXED_HEIGHT = 100, 30
"""From this size of the terminal on, panels have boxes."""
WIDE_WIDTH, WIDE_HEIGHT = 180, 50
FRAME_ROWS = 4
"""Header, tabs, rule and footer."""


class View(Widget, can_focus=True):
    """One screen. Subclasses draw in `paint` and act on keys in `action_...` methods."""

    NAME: ClassVar[str]

    DEFAULT_CSS = """
    View { width: 1fr; height: 1fr; display: none; }
    View.shown { display: block; }
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__(id=self.NAME)
        self.desk = desk
        self._canvas: Canvas | None = None
        self._strips: list[Strip] = []
        self._spots: list[tuple[Area, str]] = []
        self._slow: dict[str, tuple[object, float, Patch, list[tuple[Area, str]]]] = {}

    # -- for subclasses --------------------------------------------------------------------------

    def paint(self, brush: Brush, model: Model) -> None:
        """Draw everything."""
        raise NotImplementedError

    def opens(self) -> tuple[str, int] | None:
        """What Enter goes down to: ("request", id), ("step", n) or ("block", id); None: nothing."""
        return None

    def moved(self, rows: int) -> None:
        """Up or down was pressed, so many times; Page keys are a screenful."""

    @property
    def model(self) -> Model | None:
        """The run at the cursor, once it is loaded."""
        return self.desk.session.model

    @property
    def is_boxed(self) -> bool:
        """Room for boxes around panels."""
        return self.size.width >= BOXED_WIDTH and self.size.height + FRAME_ROWS >= BOXED_HEIGHT

    @property
    def is_wide(self) -> bool:
        """Room for three columns."""
        return self.size.width >= WIDE_WIDTH and self.size.height + FRAME_ROWS >= WIDE_HEIGHT

    def say(self, entry: Entry) -> str:
        """A line of the log as a sentence."""
        model = self.model
        assert model is not None
        return say(entry, model.reasons, self.desk.words, model.facts)

    def panel(self, brush: Brush, area: Area, title: str, note: str = "") -> Area:
        """A heading, or a box if there is room for boxes; returns the room inside."""
        if self.is_boxed:
            return brush.box(area, title, note)
        brush.heading(area, title, note)
        return Area(area.x, area.y + 1, area.width, area.height - 1)

    def slowly(self, brush: Brush, name: str, area: Area, draw: Callable[[], None]) -> None:
        """Draw a panel of numbers, at most `NUMBERS_PER_SECOND` times a second while the engine runs on."""
        session, now = self.desk.session, time.monotonic()
        look = (area, self.size, self.desk.theme.name, self.desk.words.lang)
        kept = self._slow.get(name)
        if (
            kept is not None
            and session.is_moving
            and kept[0] == look
            and now - kept[1] < 1 / NUMBERS_PER_SECOND
        ):
            brush.canvas.paste(area.x, area.y, kept[2])
            self._spots += kept[3]
            return
        before = len(self._spots)
        draw()
        patch = brush.canvas.copy(area.x, area.y, area.width, area.height)
        self._slow[name] = (look, now, patch, self._spots[before:])

    def spot(self, area: Area, action: str) -> None:
        """A click there does this."""
        self._spots.append((area, action))

    # -- drawing ---------------------------------------------------------------------------------

    def repaint(self) -> None:
        """Draw again, and let the rows that changed be shown."""
        width, height = self.size
        if not width or not height or not self.display:
            return
        desk = self.desk
        canvas = Canvas(width, height, desk.theme.style(), ascii_only=desk.glyphs.is_ascii)
        brush = Brush(canvas, desk.theme, desk.glyphs, desk.words)
        self._spots.clear()
        model = desk.session.model
        if model is None:
            self._paint_nothing(brush)
        else:
            self.paint(brush, model)
        self._strips, changed = canvas.strips(self._canvas, self._strips)
        self._canvas = canvas
        if changed:
            self.refresh(*(Region(0, y, width, n) for y, n in changed))

    def render_lines(self, crop: Region) -> list[Strip]:
        """What Textual asks for. There is neither border nor padding to add, so nothing is asked of CSS."""
        return [self.render_line(y).crop(crop.x, crop.right) for y in crop.line_range]

    def render_line(self, y: int) -> Strip:
        """One row as it was drawn last."""
        if y < len(self._strips):
            return self._strips[y]
        return Strip.blank(self.size.width, self.desk.theme.style())

    def _on_resize(self, event: Resize) -> None:
        self.repaint()

    def _paint_nothing(self, brush: Brush) -> None:
        """Why there is nothing, and what would help."""
        for i, line in enumerate(self.desk.session.why_nothing(brush.words)):
            brush.say(2, 1 + i, line, "ink" if i == 0 else "mute")

    # -- the mouse -------------------------------------------------------------------------------

    async def _on_click(self, event: Click) -> None:
        for area, action in reversed(self._spots):
            if area.x <= event.x < area.right and area.y <= event.y < area.y + area.height:
                await self.run_action(action)
                return

    def _on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        self.moved(3)
        self.repaint()

    def _on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        self.moved(-3)
        self.repaint()
