"""Everything that is not generation: the model, its health, numbers, text and tokens, control.

    GET  /health /v1/models /v1/models/{id} /metrics     for load balancers, clients and Prometheus
    POST /tokenize /detokenize                           what the engine would see
    POST /abort_request                                  end requests by the id of their answer
    POST /reset_prefix_cache /set_trace_level            with --dev only: they touch everybody's requests

Source: paths of vLLM 0.33 `vllm/entrypoints/serve`; `/abort_request`, `/flush_cache` and `/set_trace_level`
of SGLang 0.5.23 `entrypoints/http_server.py`.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.errors import CutawayError, PromptTooLong
from engine.server.admission import Admission
from engine.server.answers import (
    AbortAnswer,
    CacheResetAnswer,
    DetokenizeAnswer,
    Health,
    Model,
    ModelList,
    TokenizeAnswer,
    TraceLevelAnswer,
)
from engine.server.api import as_api_error, no_such_model
from engine.server.api_error import ApiError
from engine.server.client import CoreClient
from engine.server.protocol import AbortBody, DetokenizeBody, TokenizeBody, TraceLevelBody, parse
from tracing.record import Code, Level

SILENT_S = 60.0
"""Longer than any one step should take."""
TEXT = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' content type."""


class SidePaths:
    """Handlers; one method per path."""

    def __init__(self, client: CoreClient, admission: Admission, model_name: str) -> None:
        self._client = client
        self._admission = admission
        self._frontend = client.frontend
        self._model_name = model_name
        self._started_s = int(time.time())

    # -- well-being ----------------------------------------------------------------------------------

    async def get_health(self, request: Request) -> Response:
        """200 while requests can be served."""
        failure, silence_s = self._client.failure, self._client.silence_s
        if failure is not None:
            state = Health(status=self._client.state, reason=str(failure))
        elif silence_s > SILENT_S:
            reason = f"requests are open, and the core has said nothing for {silence_s:.0f} s"
            state = Health(status="unresponsive", reason=reason)
        elif self._client.is_draining:
            state = Health(status="shutting down", reason="it was asked to stop")
        else:
            state = Health(status="ok", reason=None)
        return _json(state, 200 if state.status == "ok" else 503)

    async def get_metrics(self, request: Request) -> Response:
        """Prometheus' text."""
        return Response(self._client.metrics.render(), media_type=TEXT)

    # -- the model -----------------------------------------------------------------------------------

    async def list_models(self, request: Request) -> Response:
        """The one model."""
        return _json(ModelList(object="list", data=[self._describe_model()]))

    async def get_model(self, request: Request) -> Response:
        """The one model, by its name."""
        name = request.path_params["model"]
        if name != self._model_name:
            return _refuse(no_such_model(name, self._model_name))
        return _json(self._describe_model())

    async def tokenize(self, request: Request) -> Response:
        """Text or chat to token ids."""
        return await self._answer(request, self._tokenize)

    async def detokenize(self, request: Request) -> Response:
        """Token ids to text."""
        return await self._answer(request, self._detokenize)

    # -- control -------------------------------------------------------------------------------------

    async def abort(self, request: Request) -> Response:
        """End the requests of an answer; whoever knows its id may."""
        return await self._answer(request, self._abort)

    async def reset_cache(self, request: Request) -> Response:
        """Forget every cached prefix."""
        return await self._answer(request, self._reset_cache)

    async def set_trace_level(self, request: Request) -> Response:
        """Record more or less from now on."""
        return await self._answer(request, self._set_trace_level)

    # -- inside --------------------------------------------------------------------------------------

    async def _answer(
        self, request: Request, handler: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Run a handler under a SERVER span; its refusals become answers."""
        telemetry = self._frontend.telemetry
        server: tuple[str, int] | None = request.scope.get("server")
        span = telemetry.begin_call("POST", request.url.path, request.headers, server)
        try:
            response, error_type = await handler(request), None
        except (ApiError, CutawayError) as error:
            refusal = as_api_error(error)
            response, error_type = _refuse(refusal), refusal.code or "invalid_request"
        except BaseException as error:
            telemetry.end_call(span, 500, type(error).__name__)
            raise
        telemetry.end_call(span, response.status_code, error_type)
        return response

    async def _tokenize(self, request: Request) -> Response:
        self._admission.check_json(request)
        body = parse(TokenizeBody, await request.body())
        self._check_model(body.model)
        tokenizer = self._frontend.tokenizer
        if body.messages is not None:
            num_chars = sum(message.num_chars for message in body.messages)
            self._frontend.check_size(num_chars, len(body.messages))
            messages = [m.as_template_message() for m in body.messages]
            tokens = await asyncio.to_thread(tokenizer.encode_chat, messages)
        else:
            self._frontend.check_size(len(body.prompt or ""))
            tokens = await asyncio.to_thread(
                tokenizer.encode, body.prompt or "", add_special_tokens=body.add_special_tokens
            )
        names = None
        if body.return_token_strs:
            names = [tokenizer.token_bytes(t).decode(errors="replace") for t in tokens]
        answer = TokenizeAnswer(
            count=len(tokens),
            max_model_len=self._frontend.max_model_len,
            tokens=tokens,
            token_strs=names,
        )
        return _json(answer)

    async def _detokenize(self, request: Request) -> Response:
        self._admission.check_json(request)
        body = parse(DetokenizeBody, await request.body())
        self._check_model(body.model)
        tokenizer = self._frontend.tokenizer
        if len(body.tokens) > self._frontend.max_model_len:
            raise PromptTooLong(len(body.tokens), self._frontend.max_model_len)
        tokenizer.check_ids(body.tokens)
        text = await asyncio.to_thread(tokenizer.decode, body.tokens, skip_special_tokens=False)
        return _json(DetokenizeAnswer(prompt=text))

    async def _abort(self, request: Request) -> Response:
        self._admission.check_json(request)
        body = parse(AbortBody, await request.body())
        found = self._client.find(body.rid)
        self._client.abort(found, Code.ABORT_CALL)
        return _json(AbortAnswer(aborted=len(found)))

    async def _reset_cache(self, request: Request) -> Response:
        num_blocks = await self._client.reset_cache()
        if num_blocks is None:
            raise ApiError(409, "requests are open: the cache can be reset when there are none")
        return _json(CacheResetAnswer(num_blocks=num_blocks))

    async def _set_trace_level(self, request: Request) -> Response:
        self._admission.check_json(request)
        body = parse(TraceLevelBody, await request.body())
        self._client.set_level(Level[body.level.upper()])
        level = self._frontend.telemetry.recorder.level
        return _json(TraceLevelAnswer(level=level.name.lower()))

    def _check_model(self, name: str | None) -> None:
        if name not in (None, self._model_name):
            raise no_such_model(str(name), self._model_name)

    def _describe_model(self) -> Model:
        return Model(
            id=self._model_name,
            object="model",
            created=self._started_s,
            owned_by="cutaway",
            max_model_len=self._frontend.max_model_len,
        )


def _json(answer: BaseModel, status: int = 200) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")


def _refuse(error: ApiError) -> Response:
    return JSONResponse(error.body(), error.status, error.headers)
