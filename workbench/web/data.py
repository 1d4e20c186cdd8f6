"""Data routes: windows of a run as JSON, for the canvases.

    GET /data/runs/{run}/overview                     facts, engines
    GET /data/runs/{run}/bins?engine&a&b&most         steps folded into columns
    GET /data/runs/{run}/steps?engine&a&b             all rows of some steps
    GET /data/runs/{run}/lives?engine                 requests
    GET /data/runs/{run}/pool?engine&step             block pool after a step
    GET /data/runs/{run}/owners?engine&step           who used each block last
    GET /data/runs/{run}/next?engine&kind&step&seq&back
    GET /data/runs/{run}/request?external             the request that a client knows by this id
    GET /data/runs/{run}/why?engine&kind&step&...     one mark explained
    GET /data/runs/{run}/picture                      the run at a glance, for its card

They are plain functions, so each runs in a thread and a slow one holds up nobody. What is complete never
changes, so answers about sealed runs may be kept by the browser for an hour.

Invariant: a run is named, never located; no route reads a path.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse

from tracing.reader import Run
from workbench.look.words import Words
from workbench.web import pictures, queries
from workbench.web.library import Library, NoSuchStep, WhichRequest
from workbench.web.views import why_card
from workbench.web.views.why_facts import Mark

Step = Annotated[int, Query(ge=-1, le=2**31 - 1)]
Engine = Annotated[int, Query(ge=0, le=32767)]
KEPT = {"cache-control": "private, max-age=3600"}


def data_routes(library: Library) -> APIRouter:
    """The routes over this library."""
    router = APIRouter(prefix="/data/runs/{run}")

    def answer(run: str, ask: Any) -> JSONResponse:
        _, info = library.find(run)
        found = library.ask(run, ask)
        return JSONResponse(found, headers=KEPT if info.state == "sealed" else None)

    @router.get("/overview")
    def overview(run: str) -> JSONResponse:
        _, info = library.find(run)
        found = library.ask(run, queries.overview)
        return JSONResponse(found | {"name": run, "live": info.state != "sealed"})

    @router.get("/bins")
    def bins(run: str, engine: Engine, a: Step, b: Step, most: int) -> JSONResponse:
        return answer(run, lambda r: queries.bins(r, engine=engine, a=a, b=b, most=most))

    @router.get("/steps")
    def steps(run: str, engine: Engine, a: Step, b: Step) -> JSONResponse:
        return answer(run, lambda r: queries.steps(r, engine=engine, a=a, b=b))

    @router.get("/lives")
    def lives(run: str, engine: Engine) -> JSONResponse:
        return answer(run, lambda r: queries.lives(r, engine=engine))

    @router.get("/pool")
    def pool(run: str, engine: Engine, step: Step) -> JSONResponse:
        return answer(run, lambda r: queries.pool(r, engine=engine, step=step))

    @router.get("/owners")
    def owners(run: str, engine: Engine, step: Step) -> JSONResponse:
        return answer(run, lambda r: queries.owners(r, engine=engine, step=step))

    @router.get("/next")
    def next_event(
        run: str,
        engine: Engine,
        kind: Literal["preemption", "eviction", "miss", "first_token"],
        step: Step,
        seq: int,
        back: bool,
    ) -> JSONResponse:
        def ask(opened: Run) -> dict[str, Any]:
            return queries.next_event(
                opened, engine=engine, kind=kind, step=step, seq=seq, back=back
            )

        return answer(run, ask)

    @router.get("/request")
    def request(run: str, external: Annotated[str, Query(max_length=300)]) -> JSONResponse:
        return JSONResponse(library.ask(run, lambda r: queries.by_external_id(r, external)))

    @router.get("/why")
    def why(
        run: str,
        engine: Engine,
        kind: Literal["row", "wait", "first_token", "gap", "end", "preempt", "block", "step"],
        step: Step,
        lang: Literal["en", "zh"],
        request: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
        block: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    ) -> JSONResponse:
        if kind in why_card.ABOUT_REQUEST and request is None:
            raise WhichRequest("which request?")
        mark = Mark(kind, engine, step, request, block)

        def ask(opened: Run) -> dict[str, Any]:
            if not queries.has_step(opened, engine=engine, step=step):
                raise NoSuchStep(f"there is no step {step}")
            return why_card.card(opened, Words(lang), mark)

        return answer(run, ask)

    @router.get("/picture")
    def picture(run: str) -> JSONResponse:
        return answer(run, pictures.picture)

    return router
