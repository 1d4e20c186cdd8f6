"""Following a live run: the recorder's stream moves the session's model.

A keyframe starts a model anew, with the history of the steps before it by queries; frames move it on; a
gap or a lost line is said, and healed by the next keyframe. While the view is frozen, frames are only
counted. When the run ends it becomes a replay; when a server starts where the old one was, that one is
followed.

Invariant: whatever happens to recorder and server, the last state stays on the screen, and it says how
old it is.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from tracing.codes import Code
from tracing.errors import TraceError
from tracing.follow import StreamEvent, follow
from tracing.reader import Run
from workbench.tui.mode import Mode, Notice, news
from workbench.tui.model import Model, load
from workbench.tui.session import Session
from workbench.tui.source import RecorderElsewhereError, ServerStartingError, Source

BEHIND_NS = 1_000_000_000
"""Older frames than this are worth a word."""
PACE_MS = 100
"""The screen is drawn no oftener."""
LOOK_SECONDS = 1.0
"""How often a server is looked for when there is none."""


class Follower:
    """Keeps a session up to date; `find` names the source again after it has ended."""

    def __init__(self, session: Session, find: Callable[[], Source | None]) -> None:
        self._session = session
        self._find = find
        self._task: asyncio.Task[None] | None = None
        self._roles: dict[int, str] = {}
        """What each process of the run is."""
        self._lost_since: float | None = None
        self._opened: tuple[str | None, Run] | None = None
        """Where the recorder answered, and the line to it: one does for many keyframes."""
        session.resume = self.start

    def start(self) -> None:
        """Follow from the newest step on."""
        self.stop()
        self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Leave the stream."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            source = self._session.source
            if source is not None and source.is_live:
                async with aclosing(follow(source.find_url, pace_ms=PACE_MS)) as events:
                    async for event in events:
                        await self._take(source, event)
                try:
                    await self._end(source)
                except TraceError as error:
                    self._session.enter(Mode.ENDED, Notice("tui.notice.error", {"error": error}))
            await self._look_for_another(source)

    async def _take(self, source: Source, event: StreamEvent) -> None:
        session = self._session
        if event.kind in ("keyframe", "frame"):
            self._find_again(Mode.LIVE if event.kind == "frame" else Mode.LOADING)
        if event.kind == "frame" and session.model is not None:
            self._note_deaths(session.model, event.data["rows"])
        match event.kind:
            case "keyframe" if session.mode is Mode.PAUSED:
                session.missed(event.data["state"]["step"])
            case "keyframe":
                await self._show(source, event)
            case "frame" if session.model is not None and _is_new_life(session.model, event):
                self._begin_anew()
            case "frame" if session.is_following:
                session.apply(event.data["rows"])
                self._say_if_behind(event.data["published_ns"])
            case "frame":
                session.missed(event.data["last_step"])
            case "gap":
                count = event.data["count"]
                key = "tui.notice.gap" if count is not None else "tui.notice.gap_unknown"
                session.notice = news(key, count=count)
            case "lost":
                self._lose(event)

    async def _show(self, source: Source, event: StreamEvent) -> None:
        session = self._session
        try:
            model = await asyncio.to_thread(self._build, source, event)
        except TraceError as error:  # it went away just now: ask for another keyframe
            self._lose(StreamEvent("lost", {"why": str(error), "retry_s": LOOK_SECONDS}))
            await asyncio.sleep(LOOK_SECONDS)
            self.start()
            return
        if session.mode is Mode.PAUSED:  # space was pressed meanwhile
            session.missed(model.last_step)
            return
        self._roles = {proc["proc_id"]: proc["role"] for proc in model.lives.procs}
        session.gone = self._gone("core", model.lives.core_gone_ns)
        session.show(model)
        session.enter(Mode.LIVE, self._young_notice())
        if session.control is not None:
            session.take_control(session.control)

    def _young_notice(self) -> Notice | None:
        notice = self._session.notice
        return notice if notice is not None and notice.until is not None else None

    def _note_deaths(self, model: Model, rows: dict[str, list[Any]]) -> None:
        """Say that the core is dead until there is another one: nothing else comes from it meanwhile."""
        session = self._session
        for event in _named(model, rows, "event"):
            if event["code"] != Code.PROC_DIED:
                continue
            # A front end that names nobody has lost the detokeniser, and gives up the core with it.
            who = event["proc_id"] if event["a0"] is None else event["a0"]
            role = self._roles.get(who)
            if role in ("core", "api"):
                role = "core" if event["a0"] is None else role
                session.gone = self._gone(role, event["ts_ns"])
        for proc in _named(model, rows, "proc"):
            self._roles[proc["proc_id"]] = proc["role"]
            if proc["role"] == "core":
                session.gone = None

    @staticmethod
    def _gone(role: str, gone_ns: int | None) -> Notice | None:
        if gone_ns is None:
            return None
        since = time.monotonic() - max(0.0, (time.time_ns() - gone_ns) / 1e9)
        return Notice(f"tui.notice.{role}_gone", {}, is_alarm=True, since=since)

    def _build(self, source: Source, event: StreamEvent) -> Model:
        """A model at a keyframe, with the history before it. In a thread. Raises TraceError."""
        url = source.find_url()
        if self._opened is None or self._opened[0] != url:
            self._opened = url, source.open()
        run = self._opened[1]
        return load(run, source.title, source.created_ns, None, start=event.data)

    def _begin_anew(self) -> None:
        """The core was killed and another one works: its steps and blocks are not those of the old one."""
        session = self._session
        session.notice = news("tui.notice.new_life")
        session.missed(None)
        if session.is_following:
            self.start()  # from a keyframe of the new life

    def _say_if_behind(self, published_ns: int) -> None:
        session, lag_ns = self._session, time.time_ns() - published_ns
        if lag_ns > BEHIND_NS:
            session.notice = news("tui.notice.behind", 1.0, s=f"{lag_ns / 1e9:.1f}")

    def _find_again(self, mode: Mode) -> None:
        """The line is back. Frames that go on where it broke move the same model on; else it is loaded."""
        session = self._session
        if self._lost_since is None:
            return
        self._lost_since = None
        if session.mode in (Mode.LOST, Mode.PAUSED):
            session.enter(mode if session.mode is Mode.LOST else Mode.PAUSED, self._young_notice())

    def _lose(self, event: StreamEvent) -> None:
        session, now = self._session, time.monotonic()
        self._lost_since = self._lost_since or now
        if session.model is None:
            session.error = None
        values = {"retry": f"{event.data['retry_s']:g}", "step": max(0, session.newest_step)}
        notice = Notice("tui.notice.lost", values, is_alarm=True, since=self._lost_since)
        if session.mode is Mode.PAUSED:
            session.notice = notice
        elif session.model is not None:
            session.enter(Mode.LOST, notice)

    async def _end(self, source: Source) -> None:
        """The run is complete: from now on it is a replay of itself."""
        session = self._session
        session.gone = session.control = None
        if source.run_dir is None or session.model is None:
            session.enter(Mode.ENDED, Notice("tui.notice.ended", {}))
            return
        from workbench.tui.source import of_run

        for _ in range(100):  # the recorder still closes the file
            replay = await asyncio.to_thread(of_run, source.run_dir)
            if not replay.is_live:
                break
            await asyncio.sleep(0.1)
        step = session.model.step
        run = await asyncio.to_thread(replay.open)
        model = await asyncio.to_thread(load, run, replay.title, replay.created_ns, step)
        session.source = replay
        session.show(model)
        session.enter(Mode.REPLAY, Notice("tui.notice.ended", {}))

    async def _look_for_another(self, before: Source | None) -> None:
        """Until a server is there that is not the one that has just gone."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                found = await asyncio.to_thread(self._find)
            except TraceError as error:
                self._say_unless_starting(error)
                continue
            if (
                found is not None
                and found.is_live
                and (before is None or found.run_dir != before.run_dir)
            ):
                self._session.source, self._session.starting = found, None
                self._session.enter(Mode.LOADING)
                return

    def _say_unless_starting(self, error: TraceError) -> None:
        """A server that was waited for may have given up."""
        session = self._session
        if session.starting is not None:
            is_coming = isinstance(error, ServerStartingError | RecorderElsewhereError)
            session.error = None if is_coming else str(error)
            session.changed()


def _named(model: Model, rows: dict[str, list[Any]], table: str) -> list[dict[str, Any]]:
    """A frame's rows of a table, by column."""
    names = model.state.columns[table]
    return [dict(zip(names, row, strict=True)) for row in rows.get(table, ())]


def _is_new_life(model: Model, event: StreamEvent) -> bool:
    """Whether a frame tells of a core that is not the one that is shown."""
    shown = model.state.engine_id
    procs = _named(model, event.data["rows"], "proc")
    lives = (proc["engine_id"] for proc in procs if proc["role"] == "core")
    return shown is not None and any(life > shown for life in lives)
