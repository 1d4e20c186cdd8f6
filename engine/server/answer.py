"""One HTTP answer on its way out: as a whole or as server-sent events, and what becomes of it.

    core's deltas ─┬► chunk ─► `data: {...}` ─► transport          stream
                   └► collected ─► one JSON body ─► transport      whole

Nothing is sent before the first delta, so an engine that is lost by then still gets a proper status.
Meanwhile the client is watched: when it hangs up, the core is asked to stop, which frees its KV blocks; so it
is when the request takes longer than the operator allows. The end of each choice is written down when its
last byte was handed to the transport.

Source: server-sent events of OpenAI's API reference; ASGI 3 for the disconnect message.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing

from opentelemetry.trace import Span
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.generation import Choice, Delta, Generation
from engine.server.api_error import ApiError
from engine.server.client import CoreClient
from engine.server.formats import ChatFormat, TextFormat
from engine.server.link import CoreError
from tracing.record import Code

CLIENT_GONE = 499
"""The usual status for a client that hung up before it was answered; nobody ever receives it."""
DISCONNECTED = "client_disconnected"
GRACE_S = 2.0
"""How long the core may take to end a request that has run out of time."""
EVENTS = b"text/event-stream; charset=utf-8"
JSON = b"application/json"


class Answer(Response):
    """Sends what the core says about some generations."""

    def __init__(
        self,
        client: CoreClient,
        generations: list[Generation],
        form: ChatFormat | TextFormat,
        *,
        stream: bool,
        include_usage: bool,
        timeout_s: float | None,
        server_span: Span,
    ) -> None:
        super().__init__()
        self._client = client
        self._frontend = client.frontend
        self._generations = generations
        self._first_index: dict[Generation, int] = {}
        """Choices are numbered over all prompts of the HTTP request."""
        num_choices = 0
        for generation in generations:
            self._first_index[generation] = num_choices
            num_choices += len(generation.choices)
        self._form = form
        self._stream = stream
        self._include_usage = include_usage
        self._timeout_s = timeout_s
        self._server_span = server_span
        self._status: int | None = None
        """What the client was told; None: nothing yet."""
        self._error_type: str | None = None
        self._alarm: asyncio.TimerHandle | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the request to its end (ASGI)."""
        watcher = asyncio.create_task(self._watch(receive))
        if self._timeout_s is not None:
            taken_s = (self._frontend.clock() - self._generations[0].arrival.arrival_ns) / 1e9
            self._set_alarm(max(0.0, self._timeout_s - taken_s), self._time_out)
        try:
            await (self._send_events(send) if self._stream else self._send_whole(send))
        except CoreError as error:
            self._error_type = "lost_engine"
            refusal = ApiError(503, str(error), code="engine_lost", retry_after_s=1)
            await self._send_error(send, refusal)
        except BaseException as error:  # cancelled, or a bug of ours
            self._error_type = type(error).__name__
            raise
        finally:
            watcher.cancel()
            if self._alarm is not None:
                self._alarm.cancel()
            self._write_down()

    async def _watch(self, receive: Receive) -> None:
        """Abort when the client hangs up; the stream then ends by itself, with the core's answers."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self._error_type = DISCONNECTED
        self._frontend.telemetry.note_disconnect(self._server_span)
        self._client.abort(self._generations, Code.ABORT_DISCONNECT)

    def _set_alarm(self, delay_s: float, ring: Callable[[], None]) -> None:
        self._alarm = asyncio.get_running_loop().call_later(delay_s, ring)

    def _time_out(self) -> None:
        """Ask the core to end it; a core that hangs will not, so that is not waited for long."""
        self._client.abort(self._generations, Code.ABORT_TIMEOUT, self._limit_ms)
        self._set_alarm(GRACE_S, self._stop_waiting)

    def _stop_waiting(self) -> None:
        self._client.give_up(self._generations, Code.ABORT_TIMEOUT, self._limit_ms)

    @property
    def _limit_ms(self) -> int:
        assert self._timeout_s is not None
        return round(self._timeout_s * 1000)

    async def _send_events(self, send: Send) -> None:
        async with aclosing(self._client.stream(self._generations)) as deltas:
            async for delta in deltas:
                if delta.choice.code is Code.ABORT_TIMEOUT:
                    continue  # told below, once for all choices
                if delta.text or delta.logprobs or delta.finish_reason:
                    await self._send_delta(send, delta)
                if delta.finish_reason is not None:
                    self._deliver(delta.generation, delta.choice)
        if self._timed_out:
            await self._send_error(send, self._describe_timeout())
            return
        if self._include_usage:
            await self._send_event(send, self._form.usage(self._generations))
        await self._send_bytes(send, b"data: [DONE]\n\n", EVENTS, last=True)

    async def _send_whole(self, send: Send) -> None:
        async with aclosing(self._client.stream(self._generations)) as deltas:
            async for _ in deltas:
                pass
        if self._timed_out:
            await self._send_error(send, self._describe_timeout())
            return
        body = self._form.whole(self._generations).model_dump_json(exclude_unset=True)
        await self._send_bytes(send, body.encode(), JSON, last=True)
        now = self._frontend.clock()
        for generation in self._generations:
            for choice in generation.choices:
                choice.first_byte_ns = now

    async def _send_error(self, send: Send, error: ApiError) -> None:
        body = json.dumps(error.body()).encode()
        if self._status is None:
            await self._send_bytes(send, body, JSON, last=True, status=error.status, error=error)
        else:  # the status is out already; OpenAI's clients look for an error in the events
            await self._send_bytes(send, b"data: " + body + b"\n\n", EVENTS, last=True)

    async def _send_delta(self, send: Send, delta: Delta) -> None:
        choice = delta.choice
        index = self._first_index[delta.generation] + choice.index
        await self._send_event(send, self._form.chunk(delta, index))
        if delta.text and choice.first_byte_ns is None:
            choice.first_byte_ns = self._frontend.clock()

    async def _send_event(self, send: Send, chunk: BaseModel) -> None:
        data = f"data: {chunk.model_dump_json(exclude_unset=True)}\n\n"
        await self._send_bytes(send, data.encode(), EVENTS, last=False)

    async def _send_bytes(
        self,
        send: Send,
        body: bytes,
        content_type: bytes,
        *,
        last: bool,
        status: int = 200,
        error: ApiError | None = None,
    ) -> None:
        """Hand bytes to the transport, with the head before the first ones."""
        if self._error_type == DISCONNECTED:
            return
        if self._status is None:
            self._status = status
            headers = [(b"content-type", content_type), (b"cache-control", b"no-cache")]
            more = {} if error is None else error.headers
            headers += [(name.encode(), value.encode()) for name, value in more.items()]
            await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": not last})

    @property
    def _timed_out(self) -> bool:
        choices = (choice for generation in self._generations for choice in generation.choices)
        return any(choice.code is Code.ABORT_TIMEOUT for choice in choices)

    def _describe_timeout(self) -> ApiError:
        self._error_type = "timeout"
        return ApiError(
            504,
            f"the request took longer than this server's limit of {self._timeout_s:g} s: ask for "
            "fewer tokens, or again when there is less to do",
            code="request_timeout",
        )

    @property
    def _told(self) -> int:
        """The status for the record."""
        if self._status is not None:
            return self._status
        return CLIENT_GONE if self._error_type == DISCONNECTED else 500

    def _deliver(self, generation: Generation, choice: Choice) -> None:
        self._frontend.deliver(generation, choice, self._told)
        self._client.metrics.ended(generation, choice)

    def _write_down(self) -> None:
        """The end of whatever was not delivered on the way, and of the HTTP request."""
        for generation in self._generations:
            if not generation.finished:  # broken off: the core's answer is not waited for
                self._frontend.give_up(Code.ABORT_SHUTDOWN, generation)
            for choice in generation.choices:
                if not choice.delivered:
                    self._deliver(generation, choice)
        self._frontend.telemetry.end_call(self._server_span, self._told, self._error_type)
