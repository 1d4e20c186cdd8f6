"""The HTTP face: OpenAI's API for one model, as far as this engine really does it.

    POST /v1/chat/completions, /v1/completions      whole or as a stream
    GET  /v1/models, /v1/models/{id}, /health

A request is read, checked, tokenised and handed to the core here; `answer.py` sends what comes back. Every
refusal has OpenAI's shape, and is in the trace.

Source: OpenAI API reference; vLLM 0.33 `vllm/entrypoints/openai/api_server.py`.
"""

import asyncio
import time
import uuid

from fastapi import FastAPI, Request
from opentelemetry.trace import Span
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from engine.errors import CutawayError
from engine.generation import Arrival
from engine.request import SamplingParams
from engine.server.answer import CLIENT_GONE, DISCONNECTED, Answer
from engine.server.client import CoreClient
from engine.server.formats import ChatFormat, TextFormat
from engine.server.link import CoreError
from engine.server.protocol import ApiError, ChatBody, TextBody, parse
from tracing.record import Code

MAX_ID_LEN = 128


def make_app(client: CoreClient, model_name: str) -> FastAPI:
    """The application over a running core."""
    # The documentation pages would load scripts from the internet.
    app = FastAPI(title="Cutaway", docs_url=None, redoc_url=None)
    api = _Api(client, model_name)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_bug)
    app.add_api_route("/v1/chat/completions", api.chat, methods=["POST"])
    app.add_api_route("/v1/completions", api.complete, methods=["POST"])
    app.add_api_route("/v1/models", api.list_models, methods=["GET"])
    app.add_api_route("/v1/models/{model:path}", api.get_model, methods=["GET"])
    app.add_api_route("/health", api.get_health, methods=["GET"])
    return app


class _Api:
    """Handlers; one method per route."""

    def __init__(self, client: CoreClient, model_name: str) -> None:
        self._client = client
        self._frontend = client.frontend
        self._telemetry = client.frontend.telemetry
        self._model_name = model_name
        self._started_s = int(time.time())

    async def chat(self, request: Request) -> Response:
        """Answer a chat."""
        return await self._handle(request, ChatBody, "chat")

    async def complete(self, request: Request) -> Response:
        """Continue one or more prompts."""
        return await self._handle(request, TextBody, "text_completion")

    async def list_models(self) -> dict[str, object]:
        """The one model."""
        return {"object": "list", "data": [self._describe_model()]}

    async def get_model(self, model: str) -> Response:
        """The one model, by its name."""
        if model != self._model_name:
            error = self._no_such_model(model)
            return JSONResponse(error.body(), error.status)
        return JSONResponse(self._describe_model())

    async def get_health(self) -> Response:
        """200 while requests can be served."""
        failure = self._client.failure
        if failure is not None:
            return JSONResponse({"status": "failed", "reason": str(failure)}, 503)
        if self._client.is_draining:
            return JSONResponse({"status": "shutting down"}, 503)
        return JSONResponse({"status": "ok"})

    # -- inside ------------------------------------------------------------------------------------

    async def _handle(
        self, request: Request, kind: type[ChatBody | TextBody], operation: str
    ) -> Response:
        """Accept a request, or refuse it in OpenAI's shape; either way its span will end."""
        server: tuple[str, int] | None = request.scope.get("server")
        span = self._telemetry.begin_call(request.url.path, request.headers, server)
        try:
            return await self._accept(request, kind, operation, span)
        except ApiError as error:
            self._telemetry.end_call(span, error.status, error.code or "invalid_request")
            return JSONResponse(error.body(), error.status)
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
        raw = await request.body()
        prefix = "chatcmpl" if operation == "chat" else "cmpl"
        arrival = Arrival(
            operation=operation,
            arrival_ns=self._frontend.clock(),
            external_id=f"{prefix}-{_client_id(request) or uuid.uuid4().hex}",
            server_span=span,
        )
        body, params, prompts = await self._read(request, kind, raw, arrival)
        generations = [
            self._frontend.submit(
                token_ids, params, arrival, priority=body.priority, cache_salt=body.cache_salt
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
            server_span=span,
        )

    async def _read(
        self, request: Request, kind: type[ChatBody | TextBody], raw: bytes, arrival: Arrival
    ) -> tuple[ChatBody | TextBody, SamplingParams, list[list[int]]]:
        """What was asked: the body, its parameters, the token ids of its prompts, all of them fine."""
        try:
            self._check_open(request)
            body = parse(kind, raw)
            if body.model not in (None, self._model_name):
                raise self._no_such_model(str(body.model))
            params = body.params()
            arrival.stream = body.stream
            arrival.tokenise_ns = self._frontend.clock()
            # In a thread: a long prompt must not hold up the streams of others.
            prompts = await asyncio.to_thread(self._tokenise, body)
        except (ApiError, CutawayError) as error:
            refusal = _as_api_error(error)
            self._frontend.reject(arrival, Code.REJECT_BAD, refusal.status, refusal.status)
            raise refusal from error
        try:
            for token_ids in prompts:
                self._frontend.check(token_ids, params, arrival)
        except CutawayError as error:  # written down by `check`
            raise _as_api_error(error) from error
        return body, params, prompts

    def _check_open(self, request: Request) -> None:
        if self._client.failure is not None:
            raise self._client.failure
        if self._client.is_draining:
            raise ApiError(503, "the server is shutting down", code="shutting_down")
        # A web page of another origin can post plain text without being asked, but not JSON.
        content_type = request.headers.get("content-type", "")
        if content_type.split(";")[0].strip().lower() != "application/json":
            raise ApiError(415, "send the request as application/json")

    def _tokenise(self, body: ChatBody | TextBody) -> list[list[int]]:
        """Token ids of each prompt."""
        tokenizer = self._frontend.tokenizer
        if isinstance(body, ChatBody):
            return [tokenizer.encode_chat([m.as_template_message() for m in body.messages])]
        return [tokenizer.encode(p) if isinstance(p, str) else p for p in body.prompts]

    def _describe_model(self) -> dict[str, object]:
        return {
            "id": self._model_name,
            "object": "model",
            "created": self._started_s,
            "owned_by": "cutaway",
            "max_model_len": self._frontend.max_model_len,
        }

    def _no_such_model(self, name: str) -> ApiError:
        message = f"the model `{name}` does not exist; this server has `{self._model_name}`"
        return ApiError(404, message, param="model", code="model_not_found")


def _client_id(request: Request) -> str | None:
    """The client's own id of the request, if it is harmless to write down."""
    given = request.headers.get("x-request-id", "")
    return given if given.isascii() and given.isprintable() and len(given) <= MAX_ID_LEN else None


def _as_api_error(error: ApiError | CutawayError) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, CoreError):
        return ApiError(503, str(error), code="engine_lost")
    return ApiError(400, str(error))


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in OpenAI's shape."""
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: {request.method} {request.url.path}"
    return JSONResponse(ApiError(error.status_code, message).body(), error.status_code)


async def _on_bug(request: Request, error: Exception) -> Response:
    """Our own mistakes; the traceback is in the server's log."""
    return JSONResponse(ApiError(500, f"internal error: {type(error).__name__}").body(), 500)
