"""The way to another step: by queries, in a thread, while the screen stays as it is.

    wish (life, step) ─► load ─► the session shows it, unless there is another wish by then

A replay that plays on asks for the rows of its next steps before they are needed.

Invariant: of several wishes for a place only the last is fulfilled, and at most one query for each of both
is under way.
"""

import asyncio
from typing import TYPE_CHECKING

from tracing.errors import TraceError
from tracing.reader import LiveRun
from workbench.tui.lives import Life
from workbench.tui.mode import news
from workbench.tui.model import Model, load, load_upcoming

if TYPE_CHECKING:
    from workbench.tui.session import Session

REFILL = 24
"""With fewer steps than this ahead, a replay asks for more."""


class Seeker:
    """Moves a session's cursor to where no rows at hand lead."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._wish: tuple[int | None, int] | None = None
        """The life of the core and the step that one is on the way to."""
        self._seeking: asyncio.Task[None] | None = None
        self._filling: asyncio.Task[None] | None = None

    @property
    def is_on_its_way(self) -> bool:
        """The cursor is not yet where it was wished to be."""
        return self._wish is not None

    @property
    def is_busy(self) -> bool:
        """A query is under way."""
        return any(t is not None and not t.done() for t in (self._seeking, self._filling))

    @property
    def where(self) -> tuple[int | None, int]:
        """The life and the step at the cursor, or on the way."""
        if self._wish is not None:
            return self._wish
        model = self._session.model
        return (None, -1) if model is None else (model.state.engine_id, model.step)

    def life_beside(self, by: int) -> Life | None:
        """The next life of a replayed core, or the one before."""
        session = self._session
        if session.model is None or session.is_live_run:
            return None
        return session.model.lives.neighbour(self.where[0], by)

    def last_step(self) -> int:
        """The last step that can be gone to in the life at the cursor."""
        session, (engine, _) = self._session, self.where
        if session.model is None or engine == session.model.state.engine_id:
            known = -1 if session.model is None else session.model.last_step
            return max(session.newest_step, known)
        return session.model.lives.last_step(engine)

    def move(self, steps: int) -> None:
        """By so many steps; from the edge of a life into the one beside it."""
        _, step = self.where
        other = self.life_beside(1 if steps > 0 else -1)
        if other is not None and steps > 0 and step >= self.last_step():
            self.go(other.engine_id, 0)
        elif other is not None and steps < 0 and step <= 0:
            self.go(other.engine_id, other.last_step)
        else:
            self.seek(step + steps)

    def seek(self, step: int) -> None:
        """To a step of the same life."""
        self.go(self.where[0], max(0, min(step, self.last_step())))

    def go(self, engine: int | None, step: int) -> None:
        """To a step of any life."""
        self._wish = engine, step
        if self._seeking is None or self._seeking.done():
            self._seeking = asyncio.create_task(self._seek())

    def refill(self) -> None:
        """Rows for a replay's next steps."""
        model = self._session.model
        if model is None or len(model.upcoming) >= REFILL or self._session.is_live_run:
            return
        if model.step + len(model.upcoming) >= model.last_step:
            return
        if self._filling is None or self._filling.done():
            self._filling = asyncio.create_task(self._fill(model))

    # -- inside ----------------------------------------------------------------------------------

    async def _seek(self) -> None:
        session = self._session
        while self._wish is not None:
            wish, model = self._wish, session.model
            assert model is not None
            try:
                found = await asyncio.to_thread(_load_at, model, *wish)
            except TraceError as error:
                self._wish = None
                session.say(news("tui.notice.error", error=str(error)))
                return
            if self._wish == wish:
                self._wish = None
            if session.model is model:
                session.show(found)

    async def _fill(self, model: Model) -> None:
        first = model.step + len(model.upcoming)
        try:
            more = await asyncio.to_thread(load_upcoming, model)
        except TraceError:
            return
        if self._session.model is model and model.step + len(model.upcoming) == first:
            model.upcoming += more


def _load_at(model: Model, engine: int | None, step: int) -> Model:
    """A life of the same run at another step. Raises TraceError."""
    asked = (model.run, model.name, model.created_ns, step)
    found = load(*asked, engine=engine)
    if found.step < step and isinstance(model.run, LiveRun):
        model.run.sync()  # frames are faster than tables: what was shown can be asked for only now
        found = load(*asked, engine=engine)
    return found
