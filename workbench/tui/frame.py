"""What stands around every screen: state and time above, tabs, a rule; the keys below.

    ● LIVE  localhost:8000  vllm  smollm2-135m          step   300  00:10.45  17.9 step/s
    1 Overview  2 Batch  3 Blocks  4 Requests  5 Request r81 ‹ Decisions            ? Help
    ━━━━━━━━━━─────────────────────────────────────── behind 1.2 s: 84 frames dropped ─

Invariant: fields do not move when numbers grow, and a notice takes the rule's room, not a row of its own.
"""

import time
from typing import Any

from rich.cells import cell_len
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from workbench.look.palette import label_of
from workbench.tui import numbers
from workbench.tui.brush import Brush
from workbench.tui.canvas import Canvas
from workbench.tui.desk import NUMBERS_PER_SECOND, Desk
from workbench.tui.keys import FOOTERS, key_of, shown
from workbench.tui.mode import Mode
from workbench.tui.model import Model
from workbench.tui.places import SCREENS
from workbench.tui.rates import rates_at

WIDE = 100
"""From so many cells on, the header names the model."""


class _Bar(Widget):
    """A few rows that are drawn like a screen."""

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self._canvas: Canvas | None = None
        self._strips: list[Strip] = []

    def draw(self, brush: Brush) -> None:
        """Draw everything."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Draw again; rows that changed are shown."""
        width, height = self.size
        if not width:
            return
        desk = self.desk
        blank = desk.theme.style("ink", "panel" if height == 1 else "ground")
        canvas = Canvas(width, height, blank, ascii_only=desk.glyphs.is_ascii)
        self.draw(Brush(canvas, desk.theme, desk.glyphs, desk.words))
        self._strips, changed = canvas.strips(self._canvas, self._strips)
        self._canvas = canvas
        if changed:
            self.refresh(*(Region(0, y, width, n) for y, n in changed))

    def on_resize(self) -> None:
        """The terminal has another size."""
        self.repaint()

    def render_lines(self, crop: Region) -> list[Strip]:
        """What Textual asks for; as in `View`."""
        return [self.render_line(y).crop(crop.x, crop.right) for y in crop.line_range]

    def render_line(self, y: int) -> Strip:
        """One row as it was drawn last."""
        blank = Strip.blank(self.size.width, self.desk.theme.style())
        return self._strips[y] if y < len(self._strips) else blank


class Header(_Bar):
    """State, source, time; tabs; rule."""

    DEFAULT_CSS = "Header { dock: top; height: 3; }"
    _speed = (0.0, 0.0)
    """When it was looked at, steps per second."""
    _drawn: tuple[object, float] = (None, 0.0)
    """What it depended on besides the step, and when."""

    def repaint(self) -> None:
        """Draw again; while steps run, no oftener than one can read them."""
        session, now = self.desk.session, time.monotonic()
        look = (
            *(session.mode, session.notice, session.gone, self.desk.places.here, self.size),
            *(self.desk.words.lang, self.desk.theme.name),
        )
        is_young = now - self._drawn[1] < 1 / NUMBERS_PER_SECOND
        if session.is_moving and is_young and look == self._drawn[0]:
            return
        self._drawn = look, now
        super().repaint()

    def draw(self, brush: Brush) -> None:
        """Three rows."""
        brush.canvas.fill(0, 0, brush.canvas.width, brush.style("ink", "panel"))
        self._draw_state(brush)
        self._draw_tabs(brush)

    def _draw_state(self, brush: Brush) -> None:
        session, words = self.desk.session, brush.words
        mode = session.mode
        glyphs = brush.glyphs
        mark = {
            Mode.LIVE: glyphs.live,
            Mode.PAUSED: glyphs.paused,
            Mode.REPLAY: glyphs.running if session.is_playing else glyphs.replay,
            Mode.LOST: glyphs.lost,
            Mode.HELD: glyphs.held,
        }.get(mode, glyphs.more)
        chip = f" {mark} {words(f'tui.mode.{mode}')} "
        style = {
            Mode.LIVE: brush.style("ground", "ink", bold=True),
            Mode.LOST: brush.style("hi", "alarm", bold=True),
            Mode.HELD: brush.style("ground", "hi", bold=True),
        }.get(mode, brush.style("hi", "faint", bold=True))
        if brush.theme.is_mono:
            style = brush.style("ink", "chip", bold=True)
        x = brush.canvas.put(1, 0, chip, style) + 1
        clock = self._clock(brush)
        room = brush.canvas.width - 1 - cell_len(clock)
        model = session.model
        title = session.source.title if session.source else words("tui.title")
        x = brush.say(x, 0, title, "hi", bg="panel", bold=True, width=room - x - 1) + 2
        if model is not None:
            run = model.state.run
            facts = [run.get("policy"), run.get("model") if brush.canvas.width >= WIDE else None]
            for fact in facts:
                if fact and x + len(fact) < room - 1:
                    x = brush.say(x, 0, str(fact), "mute", bg="panel") + 2
        brush.say(room, 0, clock, "ink", bg="panel")

    def _clock(self, brush: Brush) -> str:
        """Step and time at the right, each in a field of its own."""
        session, words = self.desk.session, brush.words
        model = session.model
        if model is None:
            return ""
        now = numbers.clock(model.now_ns - model.created_ns) if model.now_ns else "00:00.00"
        step = numbers.NOTHING if model.step < 0 else f"{model.step:,}"
        if session.is_live_run:
            speed = f"{self._steps_per_s(model):5.1f} {words('tui.steps_per_s')}"
            return f"{words('tui.step')} {step:>7}  {now}  {speed}"
        last = numbers.NOTHING if model.last_step < 0 else f"{model.last_step:,}"
        place = model.lives.place(model.state.engine_id)
        if len(model.lives) > 1 and place is not None:
            last += " " + words("tui.life_of", n=place + 1, of=len(model.lives))
        return (
            f"{words('tui.step')} {step:>6} / {last}  {now} {brush.glyphs.times}{session.speed:g}"
        )

    def _steps_per_s(self, model: Model) -> float:
        """Of the last seconds; looked at twice a second."""
        now = time.monotonic()
        if now - self._speed[0] > 0.5:
            found = rates_at(model.timeline, model.step, self.desk.session.now_ns).steps_per_s
            self._speed = (now, found or 0.0)
        return self._speed[1]

    def _draw_tabs(self, brush: Brush) -> None:
        words, places = brush.words, self.desk.places
        here, width = places.here, brush.canvas.width
        brush.canvas.fill(0, 2, width, brush.style("rule"), brush.glyphs.line)
        x = 1
        for i, screen in enumerate(SCREENS):
            name = words(f"tui.tab.{screen}")
            is_here = screen == here.screen
            digit = "?" if screen == "help" else str(i + 1)
            if screen == "help":
                x = max(x, width - cell_len(name) - 3)
            style = ("hi", True) if is_here else ("mute", False)
            start = x
            x = brush.say(
                x, 1, digit, "mute" if not is_here else "hi", bold=is_here or screen != "help"
            )
            x = brush.say(x + 1, 1, name, style[0], bold=style[1])
            if is_here:
                brush.canvas.fill(start, 2, x - start, brush.style("hi"), brush.glyphs.heavy)
                x = self._draw_way_back(brush, x)
            x += 2
        self._draw_notice(brush)  # over the mark of a tab, if it needs that room

    def _draw_way_back(self, brush: Brush, x: int) -> int:
        """What the place is about, and where Escape leads, where there is room."""
        places, words = self.desk.places, brush.words
        here, before = places.here, places.before
        about = ""
        if here.screen == "request" and here.request_id is not None:
            about = f" {label_of(here.request_id)}"
        if before is not None:
            about += f" ‹ {words(f'tui.tab.{before.screen}')}"
        if about and brush.canvas.width - x > 40:
            x = brush.say(x, 1, about, "mute")
        return x

    def _draw_notice(self, brush: Brush) -> None:
        session = self.desk.session
        notice = session.notice or session.gone
        words, right = brush.words, brush.canvas.width - 2
        if notice is not None:
            text, fg = notice.say(words), "alarm" if notice.is_alarm else "hi"
        elif session.is_held and session.control is not None:
            text, fg = self._say_held(brush, session.control), "hi"
        elif session.mode is Mode.PAUSED and session.model is not None:
            newer = max(0, session.newest_step - session.model.step)
            text, fg = words("tui.notice.paused", n=f"{newer:,}"), "mute"
        else:
            return
        room = right - 24
        text = f" {text} "
        start = right - min(cell_len(text), room)
        brush.say(start, 2, text, fg, width=room)

    def _say_held(self, brush: Brush, control: dict[str, Any]) -> str:
        """The engine stands, and perhaps the view too."""
        step, by = control["next_step"], control["stopped_by"]
        if self.desk.session.mode is Mode.PAUSED:
            return brush.words("tui.notice.held_paused", step=step)
        return brush.words("tui.notice.held" if by else "tui.notice.held_by_hand", step=step, by=by)


class Footer(_Bar):
    """The keys of the screen, the most telling first; `?` is never dropped."""

    DEFAULT_CSS = "Footer { dock: bottom; height: 1; }"
    _drawn: tuple[object, ...] = ()

    def repaint(self) -> None:
        """Draw again if anything that it depends on has changed."""
        desk = self.desk
        look = (desk.places.here.screen, desk.session.is_live_run, desk.words.lang, desk.theme.name)
        if (look, self.size) != self._drawn:
            self._drawn = (look, self.size)
            super().repaint()

    def draw(self, brush: Brush) -> None:
        """One row."""
        width, x = brush.canvas.width, 1
        names = list(FOOTERS[self.desk.places.here.screen])
        texts = [self._text(brush, name) for name in names]
        while sum(cell_len(k) + cell_len(v) + 3 for k, v in texts) > width - 1 and len(texts) > 2:
            del texts[-2]
        for key, verb in texts:
            x = brush.say(x, 0, key, "hi", bg="panel", bold=True)
            x = brush.say(x + 1, 0, verb, "mute", bg="panel") + 2
        quit_key, quit_verb = self._text(brush, "quit")
        need = cell_len(quit_key) + cell_len(quit_verb) + 2
        if x + need < width and "quit" not in names:
            start = width - need
            brush.say(start, 0, quit_key, "hi", bg="panel", bold=True)
            brush.say(start + cell_len(quit_key) + 1, 0, quit_verb, "mute", bg="panel")

    def _text(self, brush: Brush, name: str) -> tuple[str, str]:
        word = name
        if name == "freeze" and not self.desk.session.is_live_run:
            word = "play"
        return shown(key_of(name), brush.glyphs), brush.words(f"tui.key.{word}")


class OneLine(_Bar):
    """All there is in a terminal below 80 x 24."""

    DEFAULT_CSS = "OneLine { height: 1fr; display: none; }"

    def draw(self, brush: Brush) -> None:
        """State, running, waiting, KV, and that a larger terminal shows more."""
        session, words = self.desk.session, brush.words
        model = session.model
        text = words(f"tui.mode.{session.mode}")
        if model is not None:
            text = one_line(model, text, brush)
        brush.say(0, 0, text, width=brush.canvas.width)
        brush.say(0, 1, words("tui.too_small"), "mute", width=brush.canvas.width)


def one_line(model: Model, state: str, brush: Brush) -> str:
    """The engine in a line."""
    return brush.words(
        "tui.one_line",
        state=state,
        running=len(model.state.running),
        waiting=len(model.state.waiting),
        kv=numbers.percent(model.kv_share),
    )
