"""Where the cursor is in time, and what moves it: the engine's own steps, or a replay's clock.

    live      frames advance the model             space, an arrow ─► paused (the engine runs on)
    paused    the model stands, newer steps are counted            G ─► loading
    loading   the model stands until there is a fresh keyframe     ─► live
    replay    the clock advances the model, arrows move it
    lost      the last model stays                                 comes back by itself

Live and replay share everything else: one model, one cursor, the same seeking by queries (`seeker`).

Invariant: the model is only replaced or advanced in the event loop; what takes queries runs in a thread.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from tracing.errors import TraceError
from workbench.look.words import Words
from workbench.tui.clock import Clock
from workbench.tui.mode import Mode, Notice
from workbench.tui.model import Figures, Model, load_figures
from workbench.tui.rates import WINDOW_SECONDS
from workbench.tui.seeker import Seeker
from workbench.tui.source import Source

FIGURES_SHARE = 20
"""A query that takes long is asked less often: the recorder has other things to do."""
COMMIT_SECONDS = 1.0
"""Frames are faster than tables: what was shown can surely be asked for only so much later."""


class Session:
    """One run, looked at. `changed` is called whenever something new can be drawn."""

    def __init__(
        self, source: Source | None, changed: Callable[[], None], starting: str | None = None
    ) -> None:
        self.source = source
        self.changed = changed
        self.model: Model | None = None
        self.starting = starting
        """A server that still loads its model, and is waited for."""
        self.mode = Mode.LOADING if source is not None or starting is not None else Mode.EMPTY
        self.notice: Notice | None = None
        self.is_playing = False
        self.version = 0
        """Counts changes of the model."""
        self.newest_step = -1
        """Of a live run, also while the model stands."""
        self.control: dict[str, Any] | None = None
        """What the server said last of being held, with `--dev`."""
        self.gone: Notice | None = None
        """That the core has died, as long as there is no other one."""
        self.error: str | None = None
        self.resume: Callable[[], None] = _nothing
        """Follow again; set by who follows."""
        self.seeker = Seeker(self)
        self.clock = Clock()
        """A replay's own time."""
        self.moved_at = 0.0
        """When rows came last, on the monotonic clock."""
        self._figures_at = 0.0
        self._figures_due = 0.0
        self._aged_at = 0.0

    @property
    def is_live_run(self) -> bool:
        """The run is still being recorded."""
        return self.source is not None and self.source.is_live

    @property
    def is_following(self) -> bool:
        """Frames advance the model."""
        return self.mode in (Mode.LIVE, Mode.HELD)

    @property
    def is_moving(self) -> bool:
        """Steps go by."""
        return self.is_following or self.is_playing

    @property
    def now_ns(self) -> int:
        """The moment that is shown: the clock's while one follows, else the cursor's; 0: none."""
        if self.model is None:
            return 0
        return time.time_ns() if self.is_following else self.model.now_ns

    @property
    def is_held(self) -> bool:
        """The engine stands still, whatever step is looked at."""
        is_known = self.control is not None and self.mode in (Mode.LIVE, Mode.HELD, Mode.PAUSED)
        return is_known and bool((self.control or {})["paused"])

    @property
    def held(self) -> dict[str, Any] | None:
        """How an engine stands still after the step at the cursor; None: it does not, or nobody knows."""
        is_newest = self.model is not None and self.model.step >= self.newest_step
        return self.control if self.is_held and is_newest else None

    @property
    def is_at_end(self) -> bool:
        """There is no step after the cursor, in this life of the core or another."""
        is_last = self.model is None or self.model.step >= self.model.last_step
        return is_last and self.seeker.life_beside(1) is None

    def why_nothing(self, words: Words) -> list[str]:
        """Sentences for a screen without a model."""
        if self.error is not None:
            return [self.error]
        if self.starting is not None:
            return [words("tui.nothing.starting", url=self.starting)]
        if self.mode is Mode.EMPTY:
            return [words(f"tui.nothing.{line}") for line in ("title", "serve", "demo", "replay")]
        return [words("tui.nothing.loading")]

    # -- a model comes and goes on ---------------------------------------------------------------

    def show(self, model: Model) -> None:
        """This is what is looked at now."""
        if self.model is not None and self.model.state.engine_id != model.state.engine_id:
            self.newest_step = -1  # another life of the core counts its steps from 0
        self.model = model
        self.error = None
        self.clock.now_ns = float(model.now_ns)
        self.moved_at = time.monotonic()
        self.newest_step = max(self.newest_step, model.last_step)
        self._note_change()

    def apply(self, rows: dict[str, list[Any]]) -> None:
        """A frame of the live stream."""
        assert self.model is not None
        self.model.apply(rows)
        self.moved_at = time.monotonic()
        self.newest_step = self.model.last_step
        self._note_change()

    def missed(self, last_step: int | None) -> None:
        """A frame came that is not shown."""
        if last_step is not None:
            self.newest_step = max(self.newest_step, last_step)
        self._note_change()

    def enter(self, mode: Mode, notice: Notice | None = None) -> None:
        """Change the state chip."""
        self.mode, self.notice = mode, notice
        self._note_change()

    def take_control(self, state: dict[str, Any]) -> None:
        """The server says how things stand."""
        is_news, self.control = state != self.control, state
        if not self.is_following:
            if is_news:
                self._note_change()
        elif state["paused"] and (is_news or self.mode is not Mode.HELD):
            self.enter(Mode.HELD)
        elif not state["paused"] and self.mode is Mode.HELD:
            self.enter(Mode.LIVE)

    def say(self, notice: Notice) -> None:
        """A word under the header."""
        self.notice = notice
        self._note_change()

    # -- moving ----------------------------------------------------------------------------------

    def toggle(self) -> None:
        """Space: freeze or go on; in a replay, play or pause."""
        match self.mode:
            case Mode.LIVE | Mode.HELD | Mode.LOADING:
                self.freeze()
            case Mode.PAUSED:
                self.mode = Mode.LOADING
                self.notice = None
                self.resume()  # frames went by: to follow again takes a fresh keyframe
            case Mode.REPLAY | Mode.ENDED:
                self.is_playing = not self.is_playing and not self.is_at_end
                if self.model is not None:
                    self.clock.now_ns = float(self.model.now_ns)
        self._note_change()

    def freeze(self) -> None:
        """Stop following, or being about to; the engine runs on."""
        if self.is_following or (self.mode is Mode.LOADING and self.model is not None):
            self.enter(Mode.PAUSED)

    def go_live(self) -> None:
        """Back to the newest step."""
        if self.mode is Mode.PAUSED:
            self.toggle()
        elif not self.is_live_run and self.model is not None:
            self.seek(self.model.last_step)

    def move(self, steps: int) -> None:
        """Move the cursor by so many steps; a live view freezes first, a replay goes on to the next life."""
        if self.model is None:
            return
        self.freeze()
        self.is_playing = False
        if steps == 1 and not self.seeker.is_on_its_way and self.model.forward():
            self._note_change()
            self.seeker.refill()
        else:
            self.seeker.move(steps)

    @property
    def cursor(self) -> int:
        """The step that is shown, or that one is on the way to: keys may be faster than queries."""
        return self.seeker.where[1]

    def seek(self, step: int, engine: int | None = None) -> None:
        """Go to a step of a life (default: the same) by queries; of several wishes the last counts."""
        if self.model is None:
            return
        self.freeze()
        if engine is None:
            self.seeker.seek(step)
        else:
            self.seeker.go(engine, step)

    @property
    def speed(self) -> float:
        """Of a replay."""
        return self.clock.speed

    def change_speed(self, by: int) -> None:
        """Slower or faster."""
        self.clock.change_speed(by)
        self._note_change()

    def tick(self, seconds: float) -> None:
        """Time passes: news go, and a replay applies the steps that have ended by then."""
        self._grow_older()
        model = self.model
        if not self.is_playing or model is None or self.seeker.is_on_its_way:
            return
        if self.clock.run(model, seconds):
            self._note_change()
        if model.step >= model.last_step:
            other = self.seeker.life_beside(1)
            if other is not None:
                self.seeker.go(other.engine_id, 0)
            else:
                self.is_playing = False
                self._note_change()
        self.seeker.refill()

    async def refresh_figures(self) -> None:
        """Ask again for what only queries know, if anything has been told since."""
        model, now = self.model, time.monotonic()
        if model is None or self.seeker.is_on_its_way or now < self._figures_due:
            return
        is_settled = not self.is_live_run or self._figures_at > self.moved_at + COMMIT_SECONDS
        if model.figures.step == model.step and is_settled:
            return
        self._figures_at = now
        try:
            asked = (model.run, model.state.engine_id, model.step, model.until_ns)
            figures = await asyncio.to_thread(load_figures, *asked)
        except TraceError:
            return  # the line is down; whoever follows says so
        took = time.monotonic() - now
        self._figures_due = now + FIGURES_SHARE * took
        if self.model is model:
            self._take_figures(model, figures)

    # -- inside ----------------------------------------------------------------------------------

    def _grow_older(self) -> None:
        """What changes on the screen though nothing happens."""
        if self.notice is not None and self.notice.is_over:
            self.notice = None
            self._note_change()
        shown, now = self.notice or self.gone, time.monotonic()
        has_clock = shown is not None and shown.since is not None
        is_slowing = self.is_following and now - self.moved_at < WINDOW_SECONDS + 2
        if (has_clock or is_slowing) and now - self._aged_at >= 1:
            self._aged_at = now
            self._note_change()

    def _take_figures(self, model: Model, figures: Figures) -> None:
        model.figures = figures
        if figures.step == model.step:
            model.counts = dict(figures.counts)
        self._note_change()

    def _note_change(self) -> None:
        self.version += 1
        self.changed()


def _nothing() -> None:
    """Nobody follows."""
