"""Paths to handlers, and the table from which both the router and the OpenAPI description are made.

A path is described once, in `_endpoints`: what it takes, what it gives, and whether it is for `--dev`. So the
description cannot promise what the router does not have.

    AccessLog ─► Guard (who may come in, and with how much) ─► router ─► handler

Source: OpenAPI 3.1; ASGI 3.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from engine.server import answers, protocol
from engine.server.admission import Admission
from engine.server.api import GenerationApi
from engine.server.api_error import ApiError, ErrorAnswer, quote
from engine.server.client import CoreClient
from engine.server.dev import (
    AbortRequestBody,
    BreakpointBody,
    DevPaths,
    DevState,
    KnobBody,
    RemoveBody,
    StepBody,
)
from engine.server.guard import Guard
from engine.server.logs import AccessLog
from engine.server.settings import ServerSettings
from engine.server.side_paths import SidePaths

Handler = Callable[[Request], Awaitable[Response]]
REFS = "#/components/schemas/{model}"
EVENT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
"""A server-sent event: its data is a chunk, an error, or [DONE]."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    summary: str
    answer: type[BaseModel] | None
    """None: plain text."""
    body: type[BaseModel] | None = None
    streams: bool = False
    """It can also answer with server-sent events."""


def make_app(
    client: CoreClient,
    settings: ServerSettings,
    *,
    model_name: str,
    max_num_seqs: int,
    has_priorities: bool,
    defaults: protocol.Defaults,
    host: str,
) -> ASGIApp:
    """The application over an engine; `host`: where it is going to listen."""
    admission = Admission(client, settings, max_num_seqs, has_priorities=has_priorities)
    api = GenerationApi(client, admission, settings, model_name, defaults)
    side = SidePaths(client, admission, model_name)
    dev = DevPaths(client, admission) if settings.dev else None
    endpoints = _endpoints(api, side, dev)
    routes = [Route(e.path, e.handler, methods=[e.method]) for e in endpoints]
    description = describe(endpoints, has_key=settings.api_key is not None)
    routes.append(Route("/openapi.json", partial(_get_description, description)))
    app: ASGIApp = Starlette(
        routes=routes,
        exception_handlers={HTTPException: _on_http_error, Exception: _on_bug},
    )
    app = Guard(app, settings, host, client.metrics.refused)
    return AccessLog(app) if settings.access_log else app


def _endpoints(api: GenerationApi, side: SidePaths, dev: DevPaths | None) -> list[Endpoint]:
    chat, text = "/v1/chat/completions", "/v1/completions"
    found = [
        Endpoint(
            *("POST", chat, api.chat, "Answer a chat."),
            *(answers.ChatAnswer, protocol.ChatBody, True),
        ),
        Endpoint(
            *("POST", text, api.complete, "Continue prompts."),
            *(answers.TextAnswer, protocol.TextBody, True),
        ),
        Endpoint("GET", "/v1/models", side.list_models, "The model.", answers.ModelList),
        Endpoint("GET", "/v1/models/{model:path}", side.get_model, "The model.", answers.Model),
        Endpoint("GET", "/health", side.get_health, "Can it serve?", answers.Health),
        Endpoint("GET", "/metrics", side.get_metrics, "For Prometheus.", None),
        Endpoint(
            *("POST", "/tokenize", side.tokenize, "Text to tokens."),
            *(answers.TokenizeAnswer, protocol.TokenizeBody),
        ),
        Endpoint(
            *("POST", "/detokenize", side.detokenize, "Tokens to text."),
            *(answers.DetokenizeAnswer, protocol.DetokenizeBody),
        ),
        Endpoint(
            *("POST", "/abort_request", side.abort, "End the requests of an answer."),
            *(answers.AbortAnswer, protocol.AbortBody),
        ),
    ]
    if dev is not None:
        reset, forget = side.reset_cache, "Forget every cached prefix."
        found += [
            Endpoint("POST", "/reset_prefix_cache", reset, forget, answers.CacheResetAnswer),
            Endpoint("POST", "/flush_cache", reset, forget, answers.CacheResetAnswer),
            Endpoint(
                *("POST", "/set_trace_level", side.set_trace_level, "Record more or less."),
                *(answers.TraceLevelAnswer, protocol.TraceLevelBody),
            ),
            *_dev_endpoints(dev),
        ]
    return found


def _dev_endpoints(dev: DevPaths) -> list[Endpoint]:
    """The paths that hold the engine still; all tell how things stand then."""
    point = "/dev/breakpoint"
    said: tuple[tuple[str, Handler, str, type[BaseModel] | None], ...] = (
        ("/dev/pause", dev.pause, "Plan no further step.", None),
        ("/dev/resume", dev.resume, "Go on.", None),
        ("/dev/step", dev.step, "Run some steps, then stand.", StepBody),
        ("/dev/knob", dev.turn_knob, "Change a limit between two steps.", KnobBody),
        (point, dev.add_breakpoint, "Stop before a step.", BreakpointBody),
        (f"{point}/remove", dev.remove_breakpoint, "Do not stop there any more.", RemoveBody),
        ("/dev/abort", dev.abort, "End a request of anybody's.", AbortRequestBody),
    )
    look = Endpoint("GET", "/dev/state", dev.get_state, "How things stand.", DevState)
    return [look, *(Endpoint("POST", p, h, text, DevState, body) for p, h, text, body in said)]


def describe(endpoints: Sequence[Endpoint], *, has_key: bool) -> dict[str, Any]:
    """The OpenAPI description of some paths."""
    bodies = {e.body for e in endpoints if e.body is not None}
    given = {e.answer for e in endpoints if e.answer is not None} | {ErrorAnswer}
    modes: list[tuple[type[BaseModel], Literal["validation", "serialization"]]] = []
    modes += [(model, "validation") for model in sorted(bodies, key=lambda m: m.__name__)]
    modes += [(model, "serialization") for model in sorted(given, key=lambda m: m.__name__)]
    _, schemas = models_json_schema(modes, ref_template=REFS)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        path = endpoint.path.replace(":path", "")
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint)
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Cutaway", "version": version("cutaway")},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }
    if has_key:
        scheme = {"type": "http", "scheme": "bearer"}
        described["components"]["securitySchemes"] = {"key": scheme}
        described["security"] = [{"key": []}]
    return described


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    good: dict[str, Any] = {"text/plain": {"schema": {"type": "string"}}}
    if endpoint.answer is not None:
        good = {"application/json": {"schema": _ref(endpoint.answer)}}
    if endpoint.streams:
        good["text/event-stream"] = {"schema": EVENT}
    error = {"application/json": {"schema": _ref(ErrorAnswer)}}
    if endpoint.path == "/health":
        error = good
    operation: dict[str, Any] = {
        "operationId": endpoint.path.strip("/").replace("/", "_").split("{")[0].strip("_"),
        "summary": endpoint.summary,
        "responses": {
            "200": {"description": "Done.", "content": good},
            "4XX": {"description": "The request has to be changed.", "content": error},
            "5XX": {"description": "The server cannot serve now.", "content": error},
        },
    }
    if endpoint.body is not None:
        content = {"application/json": {"schema": _ref(endpoint.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    if "{" in endpoint.path:
        operation["operationId"] += "_one"
        name = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
        operation["parameters"] = [name]
    return operation


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": REFS.format(model=model.__name__)}


async def _get_description(description: dict[str, Any], request: Request) -> Response:
    return JSONResponse(description)


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, in OpenAI's shape."""
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: {request.method} {quote(request.url.path)}"
    headers = dict(error.headers or {})
    return JSONResponse(ApiError(error.status_code, message).body(), error.status_code, headers)


async def _on_bug(request: Request, error: Exception) -> Response:
    """Our own mistakes; the traceback is in the server's log."""
    return JSONResponse(ApiError(500, f"internal error: {type(error).__name__}").body(), 500)
