"""What a recorder answers over HTTP: queries, the live stream, and that all said so far is in the tables.

Bound to this machine only, and careful even there: a page in the user's browser may send requests to
localhost, directly or by a host name of its own that it points at 127.0.0.1 (DNS rebinding). So only requests
to a local host name are answered, and none that a foreign page sends.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from tracing.errors import TraceError, to_json
from tracing.local import address_of, is_local
from tracing.result import Result
from tracing.store import MAX_ROWS, Store
from tracing.stream import Keyframe, Stream


class Query(BaseModel):
    """Body of POST /query: a named query with its parameters, or one SELECT."""

    name: str | None = None
    sql: str | None = None
    params: dict[str, Any] = {}
    limit: int = MAX_ROWS


@dataclass(frozen=True, slots=True)
class Service:
    """What the recorder lets HTTP do."""

    store: Store
    run: dict[str, Any]
    """run.json."""
    stream: Stream
    keyframe: Keyframe
    sync: Callable[[], None]
    """Returns when everything in the spools right now is committed."""
    finish: Callable[[], None]
    """Asks the recorder to drain, seal and end; returns at once."""


def make_app(service: Service) -> FastAPI:
    """The recorder's HTTP interface; a workbench in the same process adds its own routes to it."""
    app = FastAPI(title="cutaway recorder", docs_url=None, redoc_url=None, openapi_url=None)

    @app.middleware("http")
    async def refuse_strangers(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        origin = request.headers.get("origin")
        is_foreign = bool(origin) and not is_local(address_of(origin or ""))
        if is_foreign or not is_local(request.headers.get("host", "")):
            return JSONResponse({"error": "only this machine may ask"}, status_code=403)
        return await call_next(request)

    @app.exception_handler(TraceError)
    async def explain(request: Request, error: Exception) -> Response:
        assert isinstance(error, TraceError)
        return JSONResponse(to_json(error), status_code=400)

    # Plain functions: they run in a thread, so a slow query holds up nobody.
    @app.get("/health")
    def health() -> dict[str, Any]:
        return {"run_id": service.run["run_id"]}

    @app.get("/run")
    def run() -> dict[str, Any]:
        return service.run

    @app.get("/stream")
    async def stream(
        request: Request, after: str | None = None, pace_ms: int = 0
    ) -> StreamingResponse:
        cursor = request.headers.get("last-event-id") or after
        events = service.stream.follow(
            cursor, service.keyframe, pace_s=max(0, min(pace_ms, 1000)) / 1000
        )
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(events, media_type="text/event-stream", headers=headers)

    @app.post("/query")
    def query(asked: Query) -> JSONResponse:
        return JSONResponse(_answer(service.store, asked).to_json())

    @app.post("/sync")
    def sync() -> dict[str, Any]:
        service.sync()
        return {}

    @app.post("/finish")
    def finish() -> dict[str, Any]:
        service.finish()
        return {}

    return app


def _answer(store: Store, asked: Query) -> Result:
    if asked.name is not None:
        return store.query(asked.name, **asked.params)
    if asked.sql is not None:
        return store.sql(asked.sql, limit=max(0, min(asked.limit, MAX_ROWS)))
    raise TraceError('say what to ask: {"name": ..., "params": {...}} or {"sql": "SELECT ..."}')
