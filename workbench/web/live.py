"""What flows: the recorder's stream to the page, and the page's chat to the served model.

    GET  /data/runs/{run}/stream      the recorder's Server-Sent Events, byte for byte (`tracing.stream`)
    GET  /data/servers                running servers of this machine
    POST /data/servers/{pid}/chat     one chat completion, streamed back as the server sends it

The page never speaks to another port than its own, so it needs no permission to; and what it may reach
through here is only what announced itself on this machine: a recorder of a known run, a server in the
runtime folder.

Invariant: nothing is kept; when the page goes away, so does the connection behind it.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from workbench.look.words import Words
from workbench.servers import RunningServer, running_servers
from workbench.web.library import Library
from workbench.web.parts import words_of

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 10.0
"""Of the recorder: longer than its comments are apart."""
MAX_CHAT_BYTES = 1_000_000
EVENTS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def live_routes(library: Library) -> APIRouter:
    """The routes over this library and the servers of this machine."""
    router = APIRouter(prefix="/data")

    @router.get("/runs/{run}/stream")
    async def stream(run: str, request: Request, after: str | None = None) -> Response:
        url = await asyncio.to_thread(library.live_url, run)
        if url is None:
            return Response("event: end\ndata: {}\n\n", media_type="text/event-stream")
        cursor = request.headers.get("last-event-id") or after
        headers = {} if cursor is None else {"last-event-id": cursor}
        words = words_of(request.cookies)
        return await _relay(
            "GET", f"{url}/stream", headers, None, words, read_seconds=SILENCE_SECONDS
        )

    @router.get("/servers")
    def servers() -> list[dict[str, Any]]:
        return [describe(server) for server in running_servers()]

    @router.post("/servers/{pid}/chat")
    async def chat(pid: int, request: Request) -> Response:
        words = words_of(request.cookies)
        server = next((s for s in running_servers() if s.pid == pid), None)
        if server is None:
            return JSONResponse({"error": words("web.refusal.server_gone")}, 404)
        body = await request.body()
        if len(body) > MAX_CHAT_BYTES:
            return JSONResponse({"error": words("web.refusal.long_chat")}, 413)
        headers = {"content-type": "application/json"}
        # The API key, if the server wants one, is the user's own: the page passes it on, nobody keeps it.
        if "x-api-key" in request.headers:
            headers["authorization"] = f"Bearer {request.headers['x-api-key']}"
        # A token may take long on a small machine: no limit on silence, the user can stop it.
        return await _relay(
            "POST", f"{server.url}/v1/chat/completions", headers, body, words, read_seconds=None
        )

    return router


def describe(server: RunningServer) -> dict[str, Any]:
    """A server for the page: its run by name."""
    name = Path(server.run_dir).name if server.run_dir else None
    return {**asdict(server), "run": name}


async def _relay(
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes | None,
    words: Words,
    *,
    read_seconds: float | None,
) -> Response:
    """Pass a streamed answer on as it comes."""
    timeout = httpx.Timeout(CONNECT_SECONDS, read=read_seconds)
    # No proxies and no redirects: this talks to a process on this machine.
    client = httpx.AsyncClient(timeout=timeout, trust_env=False)
    try:
        request = client.build_request(method, url, headers=headers, content=body)
        answer = await client.send(request, stream=True)
    except httpx.HTTPError as error:
        await client.aclose()
        return JSONResponse({"error": words("web.refusal.nobody", said=str(error))}, 502)

    async def pieces() -> AsyncGenerator[bytes]:
        try:
            async for piece in answer.aiter_raw():
                yield piece
        except httpx.HTTPError:
            return  # the other end broke off; so do we, and the page sees it
        finally:
            await answer.aclose()
            await client.aclose()

    kind = answer.headers.get("content-type", "text/event-stream")
    return StreamingResponse(pieces(), answer.status_code, media_type=kind, headers=EVENTS)
