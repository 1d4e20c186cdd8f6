"""Where the cursor is in time, and what moves it: the engine's own steps, or a replay's clock.

    live      frames advance the model             space, an arrow ─► paused (the engine runs on)
    paused    the model stands, newer steps are counted            G ─► live, from a fresh keyframe
    replay    the clock advances the model, arrows move it
    lost      the last model stays                                 comes back by itself

Live and replay share everything else: one model, one cursor, the same seeking by queries.

Invariant: the model is only replaced or advanced in the event loop; what takes queries runs in a thread,
and of several wishes for a place only the last is fulfilled.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tracing.errors import TraceError
from tracing.reader import LiveRun
from workbench.look.words import Words
from workbench.tui.model import Figures, Model, load, load_figures, load_upcoming
from workbench.tui.source import Source

SPEEDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
REFILL = 24
"""With fewer steps than this ahead, a replay asks for more."""
FIGURES_SHARE = 20
"""A query that takes long is asked less often: the recorder has other things to do."""
LONGEST_PAUSE_NS = 2_000_000_000
"""A replay does not wait longer than this for the next step, however long the engine idled."""


class Mode(StrEnum):
    """What the state chip says."""

    LOADING = "loading"
    LIVE = "live"
    PAUSED = "paused"
    REPLAY = "replay"
    LOST = "lost"
    ENDED = "ended"
    HELD = "held"
    EMPTY = "empty"


@dataclass(slots=True)
class Notice:
    """A second line under the header."""

    key: str
    values: dict[str, Any]
    is_alarm: bool = False


class Session:
    """One run, looked at. `changed` is called whenever something new can be drawn."""

    def __init__(self, source: Source | None, changed: Callable[[], None]) -> None:
        self.source = source
        self.changed = changed
        self.model: Model | None = None
        self.mode = Mode.LOADING if source is not None else Mode.EMPTY
        self.notice: Notice | None = None
        self.is_playing = False
        self.speed = 1.0
        self.version = 0
        """Counts changes of the model."""
        self.newest_step = -1
        """Of a live run, also while the model stands."""
        self.control: dict[str, Any] | None = None
        """What the server said last of being held, with `--dev`."""
        self.error: str | None = None
        self.resume: Callable[[], None] = _nothing
        """Follow again; set by who follows."""
        self._clock_ns = 0.0
        """A replay's own time."""
        self._figures_due = 0.0
        self._wish: int | None = None
        self._seeking: asyncio.Task[None] | None = None
        self._filling: asyncio.Task[None] | None = None

    @property
    def is_live_run(self) -> bool:
        """The run is still being recorded."""
        return self.source is not None and self.source.is_live

    @property
    def is_following(self) -> bool:
        """Frames advance the model."""
        return self.mode in (Mode.LIVE, Mode.HELD)

    @property
    def held(self) -> dict[str, Any] | None:
        """The state of an engine that stands still; None: it runs, or nobody knows."""
        return self.control if self.mode is Mode.HELD else None

    @property
    def is_at_end(self) -> bool:
        """There is no step after the cursor."""
        return self.model is None or self.model.step >= self.model.last_step

    def why_nothing(self, words: Words) -> list[str]:
        """Sentences for a screen without a model."""
        if self.error is not None:
            return [self.error]
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
        self._clock_ns = float(model.now_ns)
        self.newest_step = max(self.newest_step, model.last_step)
        self._note_change()

    def apply(self, rows: dict[str, list[Any]]) -> None:
        """A frame of the live stream."""
        assert self.model is not None
        self.model.apply(rows)
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

    # -- moving ----------------------------------------------------------------------------------

    def toggle(self) -> None:
        """Space: freeze or go on; in a replay, play or pause."""
        match self.mode:
            case Mode.LIVE | Mode.HELD:
                self.freeze()
            case Mode.PAUSED:
                self.mode = Mode.LIVE
                self.notice = None
                self.resume()  # frames went by: to follow again takes a fresh keyframe
            case Mode.REPLAY | Mode.ENDED:
                self.is_playing = not self.is_playing and not self.is_at_end
                if self.model is not None:
                    self._clock_ns = float(self.model.now_ns)
        self._note_change()

    def freeze(self) -> None:
        """Stop following; the engine runs on."""
        if self.is_following:
            self.enter(Mode.PAUSED)

    def go_live(self) -> None:
        """Back to the newest step."""
        if self.mode is Mode.PAUSED:
            self.toggle()
        elif not self.is_live_run and self.model is not None:
            self.seek(self.model.last_step)

    def move(self, steps: int) -> None:
        """Move the cursor by so many steps; a live view freezes first."""
        if self.model is None:
            return
        self.freeze()
        self.is_playing = False
        target = max(0, min(self.cursor + steps, self.last_step))
        if steps == 1 and self._wish is None and self.model.forward():
            self._note_change()
            self._refill()
        else:
            self.seek(target)

    @property
    def cursor(self) -> int:
        """The step that is shown, or that one is on the way to: keys may be faster than queries."""
        if self._wish is not None:
            return self._wish
        return self.model.step if self.model is not None else -1

    @property
    def last_step(self) -> int:
        """The last step that can be gone to."""
        known = self.model.last_step if self.model is not None else -1
        return max(known, self.newest_step)

    def seek(self, step: int) -> None:
        """Go to a step by queries; of several wishes the last counts."""
        if self.model is None:
            return
        self.freeze()
        self._wish = max(0, min(step, self.last_step))
        if self._seeking is None or self._seeking.done():
            self._seeking = asyncio.create_task(self._seek())

    def change_speed(self, by: int) -> None:
        """Slower or faster."""
        place = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.speed))
        self.speed = SPEEDS[max(0, min(len(SPEEDS) - 1, place + by))]
        self._note_change()

    def tick(self, seconds: float) -> None:
        """A replay's clock goes on; as many steps as have ended by then are applied."""
        model = self.model
        if not self.is_playing or model is None:
            return
        self._clock_ns += seconds * self.speed * 1e9
        moved = False
        while model.upcoming:
            _, rows = model.upcoming[0]
            end_ns = _end_of(model, rows)
            if end_ns is None:
                break
            if end_ns > self._clock_ns:
                if end_ns - self._clock_ns > LONGEST_PAUSE_NS * self.speed:
                    self._clock_ns = end_ns - LONGEST_PAUSE_NS * self.speed
                break
            if not model.forward():
                break
            moved = True
        if self.is_at_end:
            self.is_playing = False
            self.seek(model.step)  # with what front ends said after it
        if moved:
            self._note_change()
        self._refill()

    async def refresh_figures(self) -> None:
        """Ask again for what only queries know, if the cursor has moved since."""
        model, now = self.model, time.monotonic()
        if model is None or model.figures.step == model.step or self._wish is not None:
            return
        if now < self._figures_due:
            return
        try:
            figures = await asyncio.to_thread(load_figures, model.run, model.state)
        except TraceError:
            return  # the line is down; whoever follows says so
        took = time.monotonic() - now
        self._figures_due = now + FIGURES_SHARE * took
        if self.model is model:
            self._take_figures(model, figures)

    # -- inside ----------------------------------------------------------------------------------

    def _take_figures(self, model: Model, figures: Figures) -> None:
        model.figures = figures
        if figures.step == model.step:
            model.counts = dict(figures.counts)
        self._note_change()

    async def _seek(self) -> None:
        while self._wish is not None:
            wish, model = self._wish, self.model
            assert model is not None
            try:
                found = await asyncio.to_thread(_load_at, model, wish)
            except TraceError as error:
                self._wish = None
                self.notice = Notice("tui.notice.error", {"error": str(error)}, is_alarm=True)
                self._note_change()
                return
            if self._wish == wish:
                self._wish = None
            if self.model is model:
                self.show(found)

    def _refill(self) -> None:
        """Rows for the next steps, before they are needed."""
        model = self.model
        if model is None or len(model.upcoming) >= REFILL or self.is_live_run:
            return
        if model.step + len(model.upcoming) >= model.last_step:
            return
        if self._filling is None or self._filling.done():
            self._filling = asyncio.create_task(self._fill(model))

    async def _fill(self, model: Model) -> None:
        first = model.step + len(model.upcoming)
        try:
            more = await asyncio.to_thread(load_upcoming, model)
        except TraceError:
            return
        if self.model is model and model.step + len(model.upcoming) == first:
            model.upcoming += more

    def _note_change(self) -> None:
        self.version += 1
        self.changed()


def _load_at(model: Model, step: int) -> Model:
    """The same life of the same run at another step. Raises TraceError."""
    asked, engine = (model.run, model.name, model.created_ns, step), model.state.engine_id
    found = load(*asked, engine=engine)
    if found.step < step and isinstance(model.run, LiveRun):
        model.run.sync()  # frames are faster than tables: what was shown can be asked for only now
        found = load(*asked, engine=engine)
    return found


def _nothing() -> None:
    """Nobody follows."""


def _end_of(model: Model, rows: dict[str, list[Any]]) -> int | None:
    """When the step of these rows ended; None: they are no step."""
    if "step" not in rows:
        return None
    place = list(model.state.columns["step"]).index("end_ns")
    return int(rows["step"][0][place])
