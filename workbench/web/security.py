"""Who may ask the workbench: this machine, or whoever has the token. And what a page may run: its own files.

Other pages in the user's browser can send requests to localhost, directly or through a host name of their
own that points there (DNS rebinding), so host and origin are looked at before anything else. Scripts come
from this server's files only: the policy names no inline script but Dash's own start line, by its hash, so
text from a prompt that ends up in a page can never become code.

Invariant: no request gets past `Guard` unless its host is local or its token is right, and its origin, where
there is one, is this server.
Source: CSP Level 3, sections 6.1 and 8; Fetch standard, `Origin`.
"""

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracing.local import address_of, is_local

TOKEN_COOKIE = "cutaway_token"
WEEK_SECONDS = 7 * 24 * 3600


class Guard:
    """ASGI middleware: refuses strangers, adds the headers that bind the page."""

    def __init__(self, app: ASGIApp, *, policy: str, token: str | None) -> None:
        self._app = app
        self._token = token
        self._headers = {
            "content-security-policy": policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None and scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 4003})
        elif refusal is not None:
            await PlainTextResponse(refusal, 403)(scope, receive, send)
        elif self._token is not None and "token=" in scope["query_string"].decode("latin-1"):
            await self._remember_token(scope, receive, send)
        else:
            await self._app(scope, receive, self._with_headers(send))

    def _refusal(self, scope: Scope) -> str | None:
        """Why a request is not answered; None: it is."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if origin is not None and address_of(origin) != host:
            return "this page may only be asked by itself"
        if self._token is None:
            return None if is_local(host) else "only this machine may ask"
        given = (_asked_token(scope), _cookie_token(headers))
        if any(word and hmac.compare_digest(word.encode(), self._token.encode()) for word in given):
            return None
        return "this workbench has a token: open the address that `cutaway web` printed"

    async def _remember_token(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The token came in the address: keep it in a cookie, and take it out of sight and history."""
        assert self._token is not None
        kept = [
            (k, v) for k, v in parse_qsl(scope["query_string"].decode("latin-1")) if k != "token"
        ]
        # The path is ours to echo: it begins with one slash, so it cannot lead to another host.
        path = "/" + scope["path"].lstrip("/\\")
        response = RedirectResponse(f"{path}?{urlencode(kept)}" if kept else path, 303)
        response.set_cookie(
            TOKEN_COOKIE, self._token, max_age=WEEK_SECONDS, httponly=True, samesite="strict"
        )
        await response(scope, receive, self._with_headers(send))

    def _with_headers(self, send: Send) -> Send:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
            await send(message)

        return send_guarded


def content_policy(script_hashes: list[str]) -> str:
    """The page's Content-Security-Policy; `script_hashes` as CSP writes them, quotes included."""
    rules = {
        "default-src": ["'none'"],
        "script-src": ["'self'", *script_hashes],
        # Styles cannot run anything, and Mantine, ag-grid and Plotly each write some at run time.
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:", "blob:"],
        "font-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
    return "; ".join(f"{name} {' '.join(values)}" for name, values in rules.items())


def _asked_token(scope: Scope) -> str | None:
    return dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token")


def _cookie_token(headers: Headers) -> str | None:
    try:
        cookie = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return None
    return cookie[TOKEN_COOKIE].value if TOKEN_COOKIE in cookie else None
