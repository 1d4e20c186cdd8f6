"""The HTTP face: OpenAI's API for one model, as far as this engine really does it.

    POST /v1/chat/completions, /v1/completions      whole or as a stream; this file
    everything else                                 side_paths.py

A request is read, checked, tokenised and handed to the core here; `answer.py` sends what comes back. Every
refusal has OpenAI's shape, and is in the trace.

Source: OpenAI API reference; vLLM 0.33 `vllm/entrypoints/openai/api_server.py`.
"""

import asyncio
import time
import uuid

from opentelemetry.trace import Span
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from engine.errors import CutawayError, PromptTooLong
from engine.generation import Arrival
from engine.request import SamplingParams
from engine.server.admission import Admission, QueueFull, engine_error
from engine.server.answer import CLIENT_GONE, DISCONNECTED, Answer
from engine.server.api_error import ApiError, quote
from engine.server.client import CoreClient
from engine.server.formats import ChatFormat, TextFormat
from engine.server.link import CoreError
from engine.server.protocol import ChatBody, Defaults, TextBody, parse
from engine.server.settings import ServerSettings
from tracing.record import Code

MAX_ID_LEN = 128


class GenerationApi:
    """The two paths that make tokens."""

    def __init__(
        self,
        client: CoreClient,
        admission: Admission,
        settings: ServerSettings,
        model_name: str,
        defaults: Defaults,
    ) -> None:
        self._client = client
        self._admission = admission
        self._frontend = client.frontend
        self._telemetry = client.frontend.telemetry
        self._timeout_s = settings.request_timeout_s
        self._model_name = model_name
        self._defaults = defaults

    async def chat(self, request: Request) -> Response:
        """Answer a chat."""
        return await self._handle(request, ChatBody, "chat")

    async def complete(self, request: Request) -> Response:
        """Continue one or more prompts."""
        return await self._handle(request, TextBody, "text_completion")

    # -- inside ------------------------------------------------------------------------------------

    async def _handle(
        self, request: Request, kind: type[ChatBody | TextBody], operation: str
    ) -> Response:
        """Accept a request, or refuse it in OpenAI's shape; either way its span will end."""
        server: tuple[str, int] | None = request.scope.get("server")
        span = self._telemetry.begin_call("POST", request.url.path, request.headers, server)
        try:
            return await self._accept(request, kind, operation, span)
        except ApiError as error:
            self._telemetry.end_call(span, error.status, error.code or "invalid_request")
            return JSONResponse(error.body(), error.status, error.headers)
        except ClientDisconnect:
            self._telemetry.end_call(span, CLIENT_GONE, DISCONNECTED)
            return Response(status_code=CLIENT_GONE)
        except BaseException as error:
            self._telemetry.end_call(span, 500, type(error).__name__)
            raise

    async def _accept(
        self, request: Request, kind: type[ChatBody | TextBody], operation: str, span: Span
    ) -> Response:
        """Read, then submit. Raises ApiError, after writing the refusal down."""
        prefix = "chatcmpl" if operation == "chat" else "cmpl"
        arrival = Arrival(
            operation=operation,
            arrival_ns=self._frontend.clock(),
            external_id=f"{prefix}-{_client_id(request) or uuid.uuid4().hex}",
            server_span=span,
        )
        body, params, prompts = await self._read(request, kind, arrival)
        salt = self._admission.cache_salt(request, body.cache_salt)
        generations = [
            self._frontend.submit(
                token_ids, params, arrival, priority=body.priority, cache_salt=salt
            )
            for token_ids in prompts
        ]
        form = (ChatFormat if operation == "chat" else TextFormat)(
            str(arrival.external_id),
            int(time.time()),
            self._model_name,
            chunk_usage=body.include_usage,
        )
        return Answer(
            self._client,
            generations,
            form,
            stream=body.stream,
            include_usage=body.include_usage,
            timeout_s=self._timeout_s,
            server_span=span,
        )

    async def _read(
        self, request: Request, kind: type[ChatBody | TextBody], arrival: Arrival
    ) -> tuple[ChatBody | TextBody, SamplingParams, list[list[int]]]:
        """What was asked: the body, its parameters, the token ids of its prompts, all of them fine."""
        try:
            self._admission.check_open()
            self._admission.check_json(request)
            body = parse(kind, await request.body())
            if body.model not in (None, self._model_name):
                raise no_such_model(str(body.model), self._model_name)
            params = body.params(self._defaults)
            arrival.stream = body.stream
            self._admission.cache_salt(request, body.cache_salt)
            self._admission.check_priority(body.priority)
            self._admission.check_room(params.n * body.num_prompts)
            self._check_sizes(body)
            arrival.tokenise_ns = self._frontend.clock()
            # In a thread: a long prompt must not hold up the streams of others.
            prompts = await asyncio.to_thread(self._tokenise, body)
            self._admission.check_room(params.n * body.num_prompts)
        except (ApiError, CutawayError) as error:
            refusal = as_api_error(error)
            self._reject(arrival, refusal, error)
            raise refusal from error
        for token_ids in prompts:
            try:
                self._frontend.check(token_ids, params, arrival)
            except CutawayError as error:  # written down by `check`
                too_long = isinstance(error, PromptTooLong)
                self._client.metrics.rejected(Code.REJECT_TOO_LONG if too_long else Code.REJECT_BAD)
                raise as_api_error(error) from error
        return body, params, prompts

    def _reject(self, arrival: Arrival, refusal: ApiError, error: Exception) -> None:
        code, a0 = Code.REJECT_BAD, refusal.status
        if isinstance(refusal, QueueFull):
            code, a0 = Code.REJECT_QUEUE, refusal.num_waiting
        elif isinstance(error, PromptTooLong):
            code, a0 = Code.REJECT_TOO_LONG, error.num_tokens
        elif refusal.status == 503:
            code, a0 = Code.REJECT_NO_ENGINE, 503
        self._frontend.reject(arrival, code, a0, refusal.status)
        self._client.metrics.rejected(code)

    def _check_sizes(self, body: ChatBody | TextBody) -> None:
        if isinstance(body, ChatBody):
            self._frontend.check_size(sum(m.num_chars for m in body.messages), len(body.messages))
            return
        for prompt in body.prompts:
            if isinstance(prompt, str):
                self._frontend.check_size(len(prompt))

    def _tokenise(self, body: ChatBody | TextBody) -> list[list[int]]:
        """Token ids of each prompt."""
        tokenizer = self._frontend.tokenizer
        if isinstance(body, ChatBody):
            return [tokenizer.encode_chat([m.as_template_message() for m in body.messages])]
        return [tokenizer.encode(p) if isinstance(p, str) else p for p in body.prompts]


def no_such_model(name: str, own_name: str) -> ApiError:
    """A request named a model that this server does not have."""
    message = f"the model `{quote(name)}` does not exist; this server has `{own_name}`"
    return ApiError(404, message, param="model", code="model_not_found")


def as_api_error(error: ApiError | CutawayError) -> ApiError:
    """An error for a user's eyes as an answer."""
    if isinstance(error, ApiError):
        return error
    return engine_error(error) if isinstance(error, CoreError) else ApiError(400, str(error))


def _client_id(request: Request) -> str | None:
    """The client's own id of the request, if it is harmless to write down."""
    given = request.headers.get("x-request-id", "")
    return given if given.isascii() and given.isprintable() and len(given) <= MAX_ID_LEN else None
