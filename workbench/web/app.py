"""One server for everything the browser asks: data routes first, Dash for the pages.

    Guard           host, origin, token, policy                      `security`
    /data/...       windows of runs, streams, chat, free questions   `data`, `live`, `desk`
    /tokens.css     the palette as CSS variables                     `workbench.look`
    /assets/...     scripts and styles, as they are
    /, /replay/...  Dash: one page whose content follows the address `shell`

Dash answers at `/` only; a deep link is served the same page, and its script reads the address. Dash runs
callbacks on the event loop, so every callback here is `async` and puts its query into a thread.

Invariant: the policy is computed after all callbacks are known, so each inline line of Dash's own is in it.
"""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from dash import Dash
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracing.errors import TraceError
from workbench.look.words import catalogue
from workbench.web import shell
from workbench.web.data import data_routes
from workbench.web.desk import Desk, desk_routes
from workbench.web.library import Library, UnknownRun
from workbench.web.live import live_routes
from workbench.web.palette_css import tokens_css
from workbench.web.parts import said, words_of
from workbench.web.security import Guard, content_policy

ASSETS = Path(__file__).parent / "assets"
MAX_CALLBACK_BYTES = 4_000_000
PAGES = ("/replay", "/metrics", "/sql", "/playground", "/learn", "/drill")
INDEX = """<!DOCTYPE html>
<html>
  <head>
    {%metas%}
    <title>{%title%}</title>
    <link rel="icon" href="/assets/icon.svg">
    <script src="/assets/boot.js"></script>
    <link rel="stylesheet" href="/tokens.css">
    {%css%}
  </head>
  <body>
    {%app_entry%}
    <footer>{%config%}{%scripts%}{%renderer%}</footer>
  </body>
</html>"""


def _log_bug(error: Exception) -> None:
    """A callback failed, which is our bug: Dash would answer 500 and keep the reason to itself."""
    logging.getLogger("cutaway.web").error("a callback failed", exc_info=error)
    raise error


class Pages:
    """ASGI middleware: a page's own address is served what `/` is, and scripts are asked for anew."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Rewrite the path of a page, for the server only: the browser keeps it."""
        if scope["type"] == "http" and any(
            scope["path"] == page or scope["path"].startswith(page + "/") for page in PAGES
        ):
            scope = {**scope, "path": "/", "raw_path": b"/"}
        if scope["type"] == "http" and scope["path"].startswith("/assets/"):
            await self._app(scope, receive, _revalidated(send))
            return
        await self._app(scope, receive, send)


class Callbacks:
    """ASGI middleware: refuses what is no callback of ours, where Dash would take it for a bug of its own."""

    def __init__(self, app: ASGIApp, known: set[str]) -> None:
        self._app = app
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, and pass it on if it is one."""
        if scope["type"] != "http" or scope["path"] != "/_dash-update-component":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more and len(body) <= MAX_CALLBACK_BYTES:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if more or not self._is_one(body):
            await JSONResponse({"error": "no callback of this page"}, 400)(scope, receive, send)
            return
        messages = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def again() -> Message:
            return next(messages, None) or await receive()

        await self._app(scope, again, send)

    def _is_one(self, body: bytes) -> bool:
        """Whether a body has the shape in which the page calls back."""
        try:
            asked = json.loads(body)
            given = [*asked["inputs"], *asked.get("state", [])]
            parts = [one for part in given for one in (part if isinstance(part, list) else [part])]
            shaped = all({"id", "property"} <= part.keys() for part in parts)
            return asked["output"] in self._known and shaped
        except (ValueError, KeyError, TypeError, AttributeError):
            return False


def _revalidated(send: Send) -> Send:
    """Modules import each other by plain names, so the browser must ask whether they changed."""

    async def send_marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["cache-control"] = "no-cache"
        await send(message)

    return send_marked


def make_app(given: Sequence[str] = (), *, token: str | None = None) -> ASGIApp:
    """The workbench over all runs at hand, those in `given` first. Raises TraceError if one is none."""
    library = Library(given)
    server = FastAPI(title="cutaway workbench", docs_url=None, redoc_url=None, openapi_url=None)
    desk = Desk()
    server.include_router(data_routes(library))
    server.include_router(desk_routes(library, desk))
    server.include_router(live_routes(library))

    @server.get("/data/words")
    def texts(lang: Literal["en", "zh"]) -> dict[str, str]:
        return {key: text for key, text in catalogue(lang).items() if key.startswith("web.")}

    @server.get("/tokens.css")
    def tokens() -> Response:
        return Response(tokens_css(), media_type="text/css")

    @server.exception_handler(UnknownRun)
    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, UnknownRun)
        return JSONResponse({"error": said(words_of(request.cookies), error)}, 404)

    @server.exception_handler(TraceError)
    async def explain(request: Request, error: Exception) -> Response:
        assert isinstance(error, TraceError)
        return JSONResponse({"error": said(words_of(request.cookies), error)}, 400)

    dash = Dash(
        __name__,
        server=server,  # type: ignore[arg-type]  # Dash 4 takes a FastAPI and forgot to say so
        assets_folder=str(ASSETS),
        # main.mjs imports the other modules by itself; boot.js must run before the page is painted.
        assets_ignore=r"^(?!main\.mjs$|.*\.css$).*",
        index_string=INDEX,
        title="Cutaway",
        update_title="",
        suppress_callback_exceptions=True,  # pages come and go, and their callbacks with them
        add_log_handler=False,
        on_error=_log_bug,
    )
    # Callbacks here travel by HTTP; without this the page would try for a WebSocket again and again.
    dash.backend.websocket_capability = False
    shell.set_up(dash, library, desk)
    policy = content_policy(list(dash.csp_hashes()))
    return Guard(Callbacks(Pages(server), set(dash.callback_map)), policy=policy, token=token)
