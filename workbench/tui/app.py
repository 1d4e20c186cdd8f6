"""The application: one cursor in time, one way back, seven screens; keys mean the same everywhere.

    session (time) ─┐
    places (where)  ├─► the screen that is shown ─► repaint at most 10 times a second, only what changed
    theme, words ───┘

Invariant: nothing here knows the engine; what is shown came out of a trace, and what is asked of a server
goes over HTTP.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from textual.app import App
from textual.binding import BindingType
from textual.filter import LineFilter, NoColor

import tracing
from tracing.errors import TraceError
from workbench.look.palette import label_of
from workbench.look.words import LANGUAGES, Words
from workbench.tui import settings
from workbench.tui.answers import Answers
from workbench.tui.decisions import Decisions
from workbench.tui.desk import Desk
from workbench.tui.desktop import Desktop
from workbench.tui.dialogs import Ask, Choose, Show
from workbench.tui.find import Found, as_command, find_request, parse_find, parse_place
from workbench.tui.glyphs import ASCII, UNICODE
from workbench.tui.live import Follower
from workbench.tui.log import KINDS
from workbench.tui.mode import Mode, news
from workbench.tui.model import Model, first_life, load
from workbench.tui.palette import TopCommands
from workbench.tui.places import Places
from workbench.tui.session import Session
from workbench.tui.source import Source, find_source
from workbench.tui.steering import LOOK_SECONDS, Steering
from workbench.tui.svg import put_right
from workbench.tui.theme import NAMES, make_theme

FRAMES_PER_SECOND = 10
FIGURES_SECONDS = 2.0


class TopApp(App[None]):
    """`cutaway top`."""

    TITLE = "cutaway top"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS = {TopCommands}  # noqa: RUF012 - Textual's own class attribute
    BINDINGS: ClassVar[list[BindingType]] = []  # the desktop has them: a dialog is not disturbed

    def __init__(
        self,
        source: Source | None,
        *,
        target: str | None = None,
        lang: str | None = None,
        theme: str | None = None,
        ascii_only: bool = False,
        step: int | None = None,
        key: str | None = None,
        starting: str | None = None,
    ) -> None:
        """`target`: how the source was named, to find it anew; `key`: of the server, to send and control.

        `starting`: URL of a server that will be the source when it has loaded its model.
        """
        super().__init__()
        kept = settings.load()
        session = Session(source, self._note_change, starting)
        self.desk = Desk(
            session=session,
            places=Places(),
            theme=make_theme("mono" if self.no_color else theme or kept.theme),
            glyphs=ASCII if ascii_only else UNICODE,
            words=Words(lang or kept.lang),
            answers=Answers(session),
        )
        self._first_step = step
        self._dirty = False
        self.kind = "preempt"
        """What [ and ] look for."""
        self.desktop = Desktop(self.desk)
        self.steering = Steering(self, key)
        self.follower = Follower(session, partial(find_source, target))

    # -- life ------------------------------------------------------------------------------------

    def get_default_screen(self) -> Desktop:
        """What everything is drawn on."""
        return self.desktop

    async def on_mount(self) -> None:
        """Begin to look."""
        for name in NAMES:
            self.register_theme(make_theme(name).textual)
        self.theme = self.desk.theme.textual.name
        self.set_interval(1 / FRAMES_PER_SECOND, self._tick)
        self.set_interval(FIGURES_SECONDS, self.desk.session.refresh_figures)
        self.set_interval(LOOK_SECONDS, self.steering.look)
        session = self.desk.session
        if session.source is None or session.source.is_live:
            self.follower.start()
        else:
            self.run_worker(self._open_replay(session.source), exclusive=True)

    async def _open_replay(self, source: Source) -> None:
        session = self.desk.session
        try:
            run = await asyncio.to_thread(source.open)
            step, engine = self._first_step, None
            if step is None:
                step, engine = 0, await asyncio.to_thread(first_life, run)
            named = (run, source.title, source.created_ns, step)
            model = await asyncio.to_thread(partial(load, engine=engine), *named)
        except TraceError as error:
            session.error = str(error)
            session.enter(Mode.EMPTY)
            return
        session.show(model)
        several = news("tui.notice.lives", n=len(model.lives)) if len(model.lives) > 1 else None
        session.enter(Mode.REPLAY, several)
        if self._first_step is None:
            session.is_playing = True

    def get_line_filters(self) -> Sequence[LineFilter]:
        """With NO_COLOR none at all: Textual's own filter leaves greys."""
        return [NoColor()] if self.no_color else super().get_line_filters()

    async def on_unmount(self) -> None:
        """Let go of the stream."""
        self.follower.stop()

    def _note_change(self) -> None:
        self._dirty = True

    def _tick(self) -> None:
        self.desk.session.tick(1 / FRAMES_PER_SECOND)
        if self._dirty:
            self._dirty = False
            self.desktop.repaint()

    # -- time ------------------------------------------------------------------------------------

    def action_toggle_play(self) -> None:
        """Freeze or go on."""
        self.desk.session.toggle()

    def action_move(self, steps: int) -> None:
        """One step, or ten."""
        self.desk.session.move(steps)

    def action_speed(self, by: int) -> None:
        """A replay's speed."""
        self.desk.session.change_speed(by)

    def action_go_first(self) -> None:
        """The first step."""
        self.desk.session.seek(0)

    def action_go_last(self) -> None:
        """The last step, or back to live."""
        self.desk.session.go_live()

    async def action_next_moment(self, direction: int) -> None:
        """The nearest step in which something of the kind happened."""
        session = self.desk.session
        model = session.model
        if model is None or model.state.engine_id is None:
            return
        asked = {"engine": model.state.engine_id, "n": session.cursor, "kind": self.kind}
        try:
            result = await asyncio.to_thread(
                model.run.query, "next_moment", direction=direction, **asked
            )
        except TraceError as error:
            self.complain(str(error))
            return
        if result.rows:
            session.seek(result.rows[0][0])
        else:
            key = "tui.notice.no_next" if direction > 0 else "tui.notice.no_previous"
            self.tell(key, kind=self.desk.words(f"common.{self.kind}"))

    def action_choose_kind(self) -> None:
        """What [ and ] look for."""
        words = self.desk.words
        options = [(kind, words(f"common.{kind}")) for kind in KINDS]

        def chosen(kind: str | None) -> None:
            if kind is not None:
                self.kind = kind
                self.tell("tui.notice.kind", kind=words(f"common.{kind}"))

        self.push_screen(Choose(words("tui.ask.kind"), options, self.kind), chosen)

    def action_choose_kinds(self) -> None:
        """Which kinds the log shows."""
        view, words = self.desktop.query_one(Decisions), self.desk.words
        options = [
            (kind, f"[{' ' if kind in view.hidden else 'x'}] {words(f'common.{kind}')}")
            for kind in KINDS
        ]

        def chosen(kind: str | None) -> None:
            if kind is not None:
                view.action_toggle_kind(kind)
                self.action_choose_kinds()

        self.push_screen(Choose(words("tui.ask.kinds"), options), chosen)

    def action_go_to(self) -> None:
        """A step or a time."""

        def answered(text: str | None) -> None:
            model = self.desk.session.model
            if text is None or model is None:
                return
            step = parse_place(text, model)
            if step is None:
                self.tell("tui.notice.not_a_place", text=text)
            else:
                self.desk.session.seek(step)

        words = self.desk.words
        self.push_screen(Ask(words("tui.ask.go_to"), words("tui.ask.go_to_note")), answered)

    def action_find(self) -> None:
        """An id, a step, or a word of a reason."""

        def answered(text: str | None) -> None:
            model = self.desk.session.model
            if text is None or model is None:
                return
            found = parse_find(text, model, self.desktop.view.say)
            if found is None:
                self.run_worker(self._find_in_trace(text, model))
            else:
                self._go_to_found(text, found)

        words = self.desk.words
        self.push_screen(Ask(words("tui.ask.find"), words("tui.ask.find_note")), answered)

    async def _find_in_trace(self, text: str, model: Model) -> None:
        """A request that left long ago is known to the trace alone."""
        try:
            found = await asyncio.to_thread(find_request, text, model)
        except TraceError as error:
            self.complain(str(error))
        else:
            self._go_to_found(text, found)

    def _go_to_found(self, text: str, found: Found | None) -> None:
        if found is None:
            self.tell("tui.notice.not_found", text=text)
        elif found.request_id is not None:
            if found.step is not None:
                self.desk.session.seek(found.step, found.engine_id)
            self.desktop.action_open_request(found.request_id)
        elif found.block_id is not None:
            self.desktop.action_open_block(found.block_id)
        elif found.step is not None:
            self.desk.session.seek(found.step)

    # -- the server ------------------------------------------------------------------------------

    def action_send_prompt(self) -> None:
        """i: a chat."""
        self.steering.ask_prompt()

    async def action_dev_pause(self) -> None:
        """P: hold the engine still, or let it go on."""
        await self.steering.pause_or_resume()

    async def action_dev_step(self) -> None:
        """O: one step."""
        await self.steering.step()

    def action_dev_breakpoint(self) -> None:
        """B: where to stop."""
        self.steering.ask_breakpoint()

    def action_dev_knobs(self) -> None:
        """K: limits."""
        self.steering.ask_knob()

    def action_dev_abort(self) -> None:
        """X: end a request."""
        self.steering.ask_abort(self.desktop.request_here())

    # -- habits ----------------------------------------------------------------------------------

    def action_next_theme(self) -> None:
        """The next theme; it is kept."""
        self.set_look(theme=NAMES[(NAMES.index(self.desk.theme.name) + 1) % len(NAMES)])

    def action_next_language(self) -> None:
        """The other language; it is kept."""
        here = LANGUAGES.index(self.desk.words.lang)
        self.set_look(lang=LANGUAGES[(here + 1) % len(LANGUAGES)])

    def set_look(self, *, theme: str | None = None, lang: str | None = None) -> None:
        """Change how things look, and keep it; with NO_COLOR there is one theme, and it is not kept."""
        if theme is not None and self.no_color:
            self.tell("tui.notice.no_color")
        elif theme is not None:
            self.desk.theme = make_theme(theme)
            self.theme = self.desk.theme.textual.name
        if lang is not None:
            self.desk.words = Words(lang)
        theme = settings.load().theme if self.no_color else self.desk.theme.name
        settings.save(settings.Settings(theme, self.desk.words.lang))
        self.desktop.repaint()

    def action_copy_id(self) -> None:
        """The request's, or else the step's name, to the clipboard."""
        request_id, model = self.desktop.request_here(), self.desk.session.model
        if model is None:
            return
        text = f"step {model.step}" if request_id is None else label_of(request_id)
        self.copy_to_clipboard(text)
        self.tell("tui.notice.copied", text=text)

    def export_screenshot(self, *, title: str | None = None, simplify: bool = False) -> str:
        """The screen as SVG."""
        return put_right(super().export_screenshot(title=title, simplify=simplify))

    def action_save_picture(self) -> None:
        """What is on the screen, as an SVG file in the current folder."""
        try:
            path = self.save_screenshot()
        except OSError as error:
            self.complain(str(error))
        else:
            self.tell("tui.notice.saved", path=path)

    def tell(self, key: str, **values: Any) -> None:
        """A word under the header, for a while."""
        session = self.desk.session
        session.notice = news(key, **values)
        self.desktop.repaint()

    def complain(self, text: str) -> None:
        """Something did not work."""
        self.tell("tui.notice.error", error=text)

    # -- the palette's own -----------------------------------------------------------------------

    def explain(self, query: str) -> None:
        """Show the SQL that defines a number."""
        text = (Path(tracing.__file__).parent / "sql" / f"{query}.sql").read_text()
        self.push_screen(Show(f"tracing/sql/{query}.sql", text))

    def copy_as_sql(self) -> None:
        """The question behind this screen, as a command for the shell."""
        text = as_command(self.desk.session, self.desk.places.here)
        if text is not None:
            self.copy_to_clipboard(text)
            self.tell("tui.notice.copied", text=text)

    def open_in_web(self) -> None:
        """How this run is opened in a browser."""
        source = self.desk.session.source
        if source is not None:
            self.tell("tui.notice.web", command=f"cutaway web {source.title}")
