"""Who may come in: one gate in front of every path, so that none can be forgotten.

    browser page of a stranger   Host or Origin is not ours            403
    no key, or a wrong one       every path but /health                401
    more bytes than any prompt   counted as they come, not believed    413
    a body that does not come    within BODY_S                         408

A server on 127.0.0.1 is reachable for every page in the user's browser, directly or by a host name of the
page's own that points there (DNS rebinding). Therefore `Host` must be a name of this machine as long as the
server listens there only, and a foreign `Origin` is refused.

Invariant: what passes has its body read and within the limit, so no handler waits for a client.
Source: vLLM 0.33, whose key guards only paths below /v1; Jackson et al. 2007 on DNS rebinding.
"""

import asyncio
import hmac
import json
from collections.abc import Callable
from hashlib import sha256
from urllib.parse import SplitResult, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.server.address import is_loopback
from engine.server.api_error import ApiError
from engine.server.settings import ServerSettings

MAX_BODY_BYTES = 8 * 2**20
BODY_S = 60.0
"""How long a body may take to arrive."""
OPEN_PATHS = {"/health"}


class Guard:
    """ASGI middleware."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        host: str,
        on_refused: Callable[[int], None],
    ) -> None:
        """`host`: where the server listens; `on_refused` is told the status of what was turned away."""
        self._app = app
        self._on_refused = on_refused
        self._key = None if settings.api_key is None else _digest(settings.api_key.encode())
        self._only_local = is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass with its body, or answer it here."""
        assert scope["type"] == "http"
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        try:
            self._check_browser(headers)
            if scope["path"] not in OPEN_PATHS:
                self._check_key(headers)
            body = await _read_body(headers, receive)
        except ApiError as error:
            self._on_refused(error.status)
            await send_error(send, error)
            return
        if body is None:
            return  # the client went away while it was sending
        await self._app(scope, _Replay(body, receive), send)

    def _check_browser(self, headers: dict[str, bytes]) -> None:
        host = headers.get("host", b"").decode("latin-1")
        if self._only_local and not is_loopback(_hostname(host)):
            raise ApiError(
                403,
                "this server answers to names of this machine only (header Host)",
                code="bad_host",
            )
        origin = headers.get("origin", b"").decode("latin-1")
        if origin and _split(origin).netloc != host and not is_loopback(_hostname(origin)):
            raise ApiError(
                403, "pages of other origins may not ask (header Origin)", code="bad_origin"
            )

    def _check_key(self, headers: dict[str, bytes]) -> None:
        if self._key is None:
            return
        scheme, _, given = headers.get("authorization", b"").partition(b" ")
        # Digests have one length, so the time taken tells nothing about the key, not even how long it is.
        if scheme.lower() != b"bearer" or not hmac.compare_digest(
            _digest(given.strip()), self._key
        ):
            raise ApiError(
                401, "send the server's key as `Authorization: Bearer KEY`", code="invalid_api_key"
            )


class _Replay:
    """Gives the body once more, then whatever else the connection has to say."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        """ASGI receive."""
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def send_error(send: Send, error: ApiError) -> None:
    """Answer with an error in OpenAI's shape."""
    body = json.dumps(error.body()).encode()
    length = str(len(body)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    headers += [(name.encode(), value.encode()) for name, value in error.headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _read_body(headers: dict[str, bytes], receive: Receive) -> bytes | None:
    """The body; None if the client went away. Raises ApiError if it is too large or too slow."""
    announced = headers.get("content-length", b"")
    if announced.isdigit() and int(announced) > MAX_BODY_BYTES:
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                body += message.get("body", b"")
                if len(body) > MAX_BODY_BYTES:
                    raise _too_large()
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise ApiError(408, f"the body did not arrive within {BODY_S:.0f} s", close=True) from None


def _too_large() -> ApiError:
    return ApiError(
        413,
        f"the body is larger than {MAX_BODY_BYTES} bytes: send less",
        code="too_large",
        close=True,
    )


def _hostname(url: str) -> str:
    """The host of a URL or of a Host header."""
    return _split(url if "://" in url else f"//{url}").hostname or ""


def _split(url: str) -> SplitResult:
    """The parts of a URL; none, if it is not one."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _digest(text: bytes) -> bytes:
    return sha256(text).digest()
