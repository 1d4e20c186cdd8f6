"""Keys that reach the server: send a prompt, and with `--dev` pause, step, breakpoints, knobs, abort.

The server is asked once a second whether it is held; while it is, the header says by what, and the Batch
screen shows the plan of the step that did not run.
"""

import asyncio
import uuid
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from workbench.look.palette import label_of
from workbench.tui.dialogs import Ask, Choose
from workbench.tui.mode import Mode
from workbench.tui.server_api import ServerApi, ServerError
from workbench.tui.source import Source

if TYPE_CHECKING:
    from workbench.tui.app import TopApp

LOOK_SECONDS = 1.0
APPEAR_SECONDS = 10.0
"""How long a request that was sent may take to show up in the trace."""


class Steering:
    """What the application asks of the server."""

    def __init__(self, app: "TopApp", key: str | None) -> None:
        self._app = app
        self._key = key
        self._refused: Source | None = None
        """One that does not."""
        self._tasks: set[asyncio.Task[None]] = set()

    # -- control ---------------------------------------------------------------------------------

    async def look(self) -> None:
        """Ask whether the engine is held still; a server that does not let itself be asked is asked once."""
        api, session = self._api(), self._app.desk.session
        source = session.source
        is_there = session.is_following or session.mode is Mode.PAUSED
        if api is None or source is self._refused or not is_there:
            return
        try:
            state = await api.control("state")
        except ServerError as error:
            if error.is_refusal:
                self._refused = source
            return
        if session.source is source:
            session.take_control(state)

    async def pause_or_resume(self) -> None:
        """P."""
        is_held = self._app.desk.session.is_held
        await self._act("resume" if is_held else "pause", {})

    async def step(self) -> None:
        """O."""
        await self._act("step", {"steps": 1})

    def ask_breakpoint(self) -> None:
        """B: a condition, or the number of one to remove."""
        words = self._app.desk.words

        def answered(text: str | None) -> None:
            if text is None:
                return
            if text.isdigit():
                self._start(self._act("breakpoint/remove", {"id": int(text)}))
            else:
                self._start(self._act("breakpoint", {"when": text}))

        points = (self._app.desk.session.control or {}).get("breakpoints", [])
        known = "   ".join(f"{point['id']}: {point['when']}" for point in points)
        note = words("tui.ask.breakpoint_note") + (f"\n{known}" if known else "")
        self._app.push_screen(Ask(words("tui.ask.breakpoint"), note), answered)

    def ask_knob(self) -> None:
        """K: name=value."""
        words = self._app.desk.words

        def answered(text: str | None) -> None:
            name, _, value = (text or "").partition("=")
            if text is None:
                return
            if not value.strip().lstrip("-").isdigit():
                self._app.tell("tui.notice.error", error=words("tui.ask.knobs_note"))
                return
            self._start(self._act("knob", {"name": name.strip(), "value": int(value)}))

        knobs = (self._app.desk.session.control or {}).get("knobs", {})
        now = "   ".join(f"{name}={value}" for name, value in knobs.items())
        self._app.push_screen(
            Ask(words("tui.ask.knobs"), now or words("tui.ask.knobs_note")), answered
        )

    def ask_abort(self, request_id: int | None) -> None:
        """X: sure? Only what runs or waits can be ended."""
        words, name, model = (
            self._app.desk.words,
            label_of(request_id),
            self._app.desk.session.model,
        )
        request = model.state.requests.get(request_id or -1) if model is not None else None
        if request is None or request["left_ns"] is not None or request["end_ns"] is not None:
            self._app.tell("tui.notice.not_open")
            return
        options = [("no", words("tui.ask.no")), ("yes", words("tui.ask.yes"))]

        def answered(choice: str | None) -> None:
            if choice == "yes":
                self._start(self._act("abort", {"request": request_id}))

        self._app.push_screen(Choose(words("tui.ask.abort", name=name), options, "no"), answered)

    async def _act(self, path: str, body: dict[str, Any]) -> None:
        api, app = self._api(), self._app
        if api is None:
            app.tell("tui.notice.no_server")
            return
        try:
            state = await api.control(path, body)
        except ServerError as error:
            if error.is_refusal and app.desk.session.source is self._refused:
                app.tell("tui.notice.no_control")
            else:
                app.complain(str(error))
            return
        self._refused = None
        app.desk.session.take_control(state)

    # -- a prompt --------------------------------------------------------------------------------

    def ask_prompt(self) -> None:
        """i: send a chat and follow it."""
        api, app = self._api(), self._app
        source = app.desk.session.source
        if api is None or source is None:
            app.tell("tui.notice.no_server")
            return
        words, model = app.desk.words, source.model or ""

        def answered(prompt: str | None) -> None:
            if prompt is not None:
                if app.desk.session.mode is Mode.PAUSED:
                    app.desk.session.go_live()  # what was sent is there, not here
                self._start(self._send(api, model, prompt))

        title = words("tui.ask.prompt", model=model)
        app.push_screen(Ask(title, words("tui.ask.prompt_note")), answered)

    async def _send(self, api: ServerApi, model: str, prompt: str) -> None:
        own = uuid.uuid4().hex
        external_id = f"chatcmpl-{own}"
        drafts = self._app.desk.drafts
        drafts[external_id] = ""
        self._start(self._follow(external_id))
        try:
            async with aclosing(api.chat(model, prompt, own)) as pieces:
                async for piece in pieces:
                    drafts[external_id] += piece
                    self._app.desk.session.changed()
        except ServerError as error:
            self._app.complain(str(error))

    async def _follow(self, external_id: str) -> None:
        """Go to the request as soon as the trace tells of it; under a dialog nothing moves."""
        app, clock = self._app, asyncio.get_running_loop().time
        end = clock() + APPEAR_SECONDS
        while clock() < end:
            model = app.desk.session.model
            for request_id, facts in (model.state.requests if model else {}).items():
                if facts["external_id"] != external_id:
                    continue
                is_free = len(app.screen_stack) == 1
                if is_free:
                    app.desktop.action_open_request(request_id)
                key = "tui.notice.sent" if is_free else "tui.notice.sent_behind"
                app.tell(key, who=label_of(request_id))
                return
            await asyncio.sleep(0.1)

    # -- inside ----------------------------------------------------------------------------------

    def _api(self) -> ServerApi | None:
        source = self._app.desk.session.source
        if source is None or source.server_url is None:
            return None
        return ServerApi(source.server_url, self._key)

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
