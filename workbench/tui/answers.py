"""Questions of a screen to the trace, answered in the background, with the last answer at hand meanwhile.

    rows = answers.ask("request_tokens", request=7)      None the first time; then rows, refreshed in time

Invariant: painting never waits; of one question at most one is under way.
"""

import asyncio
import time
from typing import Any

from tracing.errors import TraceError
from tracing.reader import Run
from workbench.tui.model import Model
from workbench.tui.session import Session

FRESH_SECONDS = 1.0
MAX_KEPT = 64

Key = tuple[str, tuple[tuple[str, Any], ...]]


class Answers:
    """Named queries about the session's run."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[Key, tuple[Run, int, float, list[dict[str, Any]]]] = {}
        """Question -> (of which run, at which step, when, rows); models are large and not kept alive here."""
        self._asking: set[Key] = set()

    def ask(self, name: str, **params: Any) -> list[dict[str, Any]] | None:
        """The rows of a query of `tracing/sql`, perhaps a second old; None: not known yet."""
        model = self._session.model
        if model is None:
            return None
        key = (name, tuple(sorted(params.items())))
        known = self._known.get(key)
        if known is None or self._is_stale(known, model):
            self._start(key, model)
        return None if known is None or known[0] is not model.run else known[3]

    def _is_stale(self, known: tuple[Run, int, float, list[dict[str, Any]]], model: Model) -> bool:
        """A recorded run does not change; a live one may have gone on."""
        run, step, when, _ = known
        if run is not model.run:
            return True
        return (
            self._session.is_live_run
            and step != model.step
            and time.monotonic() - when > FRESH_SECONDS
        )

    def _start(self, key: Key, model: Model) -> None:
        if key in self._asking:
            return
        self._asking.add(key)
        task = asyncio.create_task(self._fetch(key, model))
        task.add_done_callback(lambda _: self._asking.discard(key))

    async def _fetch(self, key: Key, model: Model) -> None:
        name, params = key
        step = model.step
        try:
            result = await asyncio.to_thread(model.run.query, name, **dict(params))
        except TraceError:
            return  # the line is down; the header says so
        self._known.pop(key, None)
        self._known[key] = (model.run, step, time.monotonic(), result.dicts())
        while len(self._known) > MAX_KEPT:
            del self._known[next(iter(self._known))]
        self._session.changed()
