"""How long a connection may keep us waiting: uvicorn's HTTP protocol with two alarm clocks.

    connect ── request head ──► HEAD_S to arrive, else the connection is dropped     (also between requests)
    answer ──► a reader who takes nothing for STALL_S is dropped, and its request ended

Without them a client that sends one byte a minute, or never reads, holds a connection and perhaps KV blocks
for as long as it likes. The body has its own limit (`guard`), the whole request may have one
(`--request-timeout`).

Source: uvicorn 0.54 `protocols/http/h11_impl.py`, which has a timer between requests only.
"""

import asyncio
import json

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from engine.server.api_error import ApiError

HEAD_S = 15.0
STALL_S = 60.0


class PatientProtocol(H11Protocol):
    """One HTTP connection."""

    _alarm: asyncio.TimerHandle | None = None
    _stall_alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base
        """A client is there: its first request should follow."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Bytes came: if they did not complete a request head, the rest of it should follow."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel()
        elif self._alarm is None:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, or was dropped."""
        self._cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes less than it is sent."""
        super().pause_writing()
        self._stall_alarm = self.loop.call_later(STALL_S, self.transport.abort)

    def resume_writing(self) -> None:
        """It has caught up."""
        super().resume_writing()
        if self._stall_alarm is not None:
            self._stall_alarm.cancel()
            self._stall_alarm = None

    def send_400_response(self, msg: str) -> None:
        """What is not HTTP gets an answer in OpenAI's shape all the same."""
        body = json.dumps(ApiError(400, msg).body()).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _expect_head(self) -> None:
        self._alarm = self.loop.call_later(HEAD_S, self.transport.abort)

    def _cancel(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
