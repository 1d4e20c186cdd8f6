"""Questions of a screen to the trace, answered in the background, with the last answer at hand meanwhile.

    rows = answers.ask("request_tokens", request=7)      None the first time; then rows, refreshed in time

Invariant: painting never waits; of one question at most one is under way.
"""

import asyncio
import time
from typing import Any

from tracing.errors import TraceError
from tracing.reader import Run
from workbench.tui.causes import FIXED, QUESTIONS
from workbench.tui.model import Model
from workbench.tui.session import COMMIT_SECONDS, Session

FRESH_SECONDS = 1.0
MAX_KEPT = 64

Key = tuple[str, tuple[tuple[str, Any], ...]]


class Answers:
    """Named queries about the session's run."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[Key, tuple[Run, float, list[dict[str, Any]]]] = {}
        """Question -> (of which run, asked when, rows); models are large and not kept alive here."""
        self._asking: set[Key] = set()

    def ask(self, name: str, **params: Any) -> list[dict[str, Any]] | None:
        """The rows of a query of `tracing/sql` or of `QUESTIONS`, perhaps a second old; None: unknown."""
        model = self._session.model
        if model is None:
            return None
        key = (name, tuple(sorted(params.items())))
        known = self._known.get(key)
        is_fixed = name in FIXED and known is not None and known[0] is model.run and bool(known[2])
        if known is None or (not is_fixed and self._is_stale(known, model)):
            self._start(key, model)
        return None if known is None or known[0] is not model.run else known[2]

    def _is_stale(self, known: tuple[Run, float, list[dict[str, Any]]], model: Model) -> bool:
        """A recorded run does not change; a live one may have gone on, or have told of it only since."""
        run, asked_at, _ = known
        if run is not model.run:
            return True
        session = self._session
        is_old = time.monotonic() - asked_at > FRESH_SECONDS
        return session.is_live_run and is_old and asked_at < session.moved_at + COMMIT_SECONDS

    def _start(self, key: Key, model: Model) -> None:
        if key in self._asking:
            return
        self._asking.add(key)
        task = asyncio.create_task(self._fetch(key, model))
        task.add_done_callback(lambda _: self._asking.discard(key))

    async def _fetch(self, key: Key, model: Model) -> None:
        (name, params), asked_at = key, time.monotonic()
        question = QUESTIONS.get(name)
        try:
            if question is None:
                rows = (await asyncio.to_thread(model.run.query, name, **dict(params))).dicts()
            else:
                rows = await asyncio.to_thread(question, model.run, **dict(params))
        except TraceError:
            return  # the line is down; the header says so
        self._known.pop(key, None)
        self._known[key] = (model.run, asked_at, rows)
        while len(self._known) > MAX_KEPT:
            del self._known[next(iter(self._known))]
        self._session.changed()
