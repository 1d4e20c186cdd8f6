"""Following a live run: the recorder's stream as a series of events that survives the recorder.

    async for event in follow(lambda: recorder_url(run_dir)):
        match event.kind: keyframe | frame | gap | end      as `tracing.stream` says
                          lost                              no connection; the next try comes by itself

Whoever follows keeps no books: the cursor is kept here, and so is the patience. Where the recorder answers is
asked for anew before each try, because one that was restarted has another port.

Invariant: events come in the order of the stream; what is missed while the line is down is either continued
by cursor or announced as a gap with a fresh keyframe behind it.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx
import msgspec

RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0)
"""Waits between tries; the last one repeats."""
SILENCE_SECONDS = 10.0
"""Longer than the stream's comments are apart: then the line is dead."""


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event; `data` as in `tracing.stream`."""

    kind: str
    data: dict[str, Any]
    cursor: str | None = None


async def follow(
    find_url: Callable[[], str | None], after: str | None = None, *, pace_ms: int = 0
) -> AsyncGenerator[StreamEvent]:
    """Events until the run has ended; between tries `lost` with {"why", "retry_s"}. Closing it ends it.

    `pace_ms`: how often events are wanted, at most; those that come faster are brought together.
    """
    num_failed = 0
    while True:
        url, why = find_url(), "nobody records it at the moment"
        if url is not None:
            try:
                async with aclosing(_connect(url, after, pace_ms)) as events:
                    async for event in events:
                        num_failed = 0
                        after = event.cursor or after
                        yield event
                        if event.kind == "end":
                            return
                why = "the recorder closed the line"
            except httpx.HTTPError as error:
                why = str(error) or type(error).__name__
        retry_s = RETRY_SECONDS[min(num_failed, len(RETRY_SECONDS) - 1)]
        num_failed += 1
        yield StreamEvent("lost", {"why": why, "retry_s": retry_s})
        await asyncio.sleep(retry_s)


async def _connect(url: str, after: str | None, pace_ms: int) -> AsyncGenerator[StreamEvent]:
    """One connection, until it breaks. Raises httpx.HTTPError."""
    headers = {} if after is None else {"last-event-id": after}
    timeout = httpx.Timeout(SILENCE_SECONDS)
    # No proxies and no redirects: this talks to a process on this machine.
    async with (
        httpx.AsyncClient(
            base_url=url, timeout=timeout, trust_env=False, verify=_certificates()
        ) as client,
        client.stream("GET", "/stream", params={"pace_ms": pace_ms}, headers=headers) as response,
    ):
        response.raise_for_status()
        async for event in _parse(response.aiter_raw()):
            yield event


@cache
def _certificates() -> ssl.SSLContext:
    """Reading them takes 10 ms and a MiB: once, not with each connection."""
    return httpx.create_ssl_context(trust_env=False)


async def _parse(chunks: AsyncIterator[bytes]) -> AsyncGenerator[StreamEvent]:
    """Server-Sent Events as the recorder writes them; a comment is a field without a name."""
    rest = b""
    async for chunk in chunks:
        *blocks, rest = (rest + chunk).split(b"\n\n")
        for block in blocks:
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
            if b"data" in fields:
                kind, cursor = fields[b"event"].decode(), fields.get(b"id", b"").decode()
                yield StreamEvent(kind, msgspec.json.decode(fields[b"data"]), cursor or None)
