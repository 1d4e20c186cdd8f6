"""Holding the engine still over HTTP: with --dev only, and with the server's key if it has one.

    GET  /dev/state                                     how things stand; all others answer with the same
    POST /dev/pause  /dev/resume                        between two steps
    POST /dev/step               {"steps": 1}           run so many, then stand
    POST /dev/knob               {"name": "max_num_seqs", "value": 8}
    POST /dev/breakpoint         {"when": "preempt"}    or `free < 8`, `request 7 first token`
    POST /dev/breakpoint/remove  {"id": 1}
    POST /dev/abort              {"request": 7}         its number, or its whole id in the trace

What is done, and by which step, is in the trace (codes 1004 to 1007); `engine.control` does it.

Invariant: a path answers after the core has acted, so what it tells is so.
"""

from collections.abc import Awaitable, Callable

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from engine.errors import CutawayError
from engine.messages import Steer
from engine.server.admission import Admission
from engine.server.api import as_api_error
from engine.server.api_error import ApiError
from engine.server.client import CoreClient
from engine.server.protocol import Int64, parse
from tracing.record import Code


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class StepBody(_Body):
    """The body of POST /dev/step."""

    steps: int = Field(default=1, ge=1, le=10_000)


class KnobBody(_Body):
    """The body of POST /dev/knob."""

    name: str = Field(max_length=64)
    value: Int64


class BreakpointBody(_Body):
    """The body of POST /dev/breakpoint."""

    when: str = Field(max_length=64)


class RemoveBody(_Body):
    """The body of POST /dev/breakpoint/remove."""

    id: Int64


class AbortRequestBody(_Body):
    """The body of POST /dev/abort."""

    request: Int64


class BreakpointAnswer(BaseModel):
    """A place where the engine stops."""

    id: int
    when: str


class PlannedRowAnswer(BaseModel):
    """One row of the plan; code: its reason, of kind row."""

    request_id: int
    code: int
    num_computed_tokens: int
    num_scheduled_tokens: int


class PlanAnswer(BaseModel):
    """A step that was planned and has not run."""

    step: int
    token_budget: int
    rows: list[PlannedRowAnswer]
    preempted: list[int]


class DevState(BaseModel):
    """How things stand."""

    paused: bool
    next_step: int
    stopped_by: str | None
    """The breakpoint that stopped it; None: paused by hand, or running."""
    knobs: dict[str, int]
    breakpoints: list[BreakpointAnswer]
    plan: PlanAnswer | None
    """What is held; None: nothing is."""


class DevPaths:
    """Handlers; one method per path."""

    def __init__(self, client: CoreClient, admission: Admission) -> None:
        self._client = client
        self._admission = admission

    async def get_state(self, request: Request) -> Response:
        """How things stand."""
        return await self._answer(request, self._look)

    async def pause(self, request: Request) -> Response:
        """No further step is planned."""
        return await self._answer(request, self._pause)

    async def resume(self, request: Request) -> Response:
        """Go on."""
        return await self._answer(request, self._resume)

    async def step(self, request: Request) -> Response:
        """Run some steps, then stand."""
        return await self._answer(request, self._step)

    async def turn_knob(self, request: Request) -> Response:
        """Change a limit of the next plan."""
        return await self._answer(request, self._turn_knob)

    async def add_breakpoint(self, request: Request) -> Response:
        """Stop before a step, when its plan is made."""
        return await self._answer(request, self._add_breakpoint)

    async def remove_breakpoint(self, request: Request) -> Response:
        """Do not stop there any more."""
        return await self._answer(request, self._remove_breakpoint)

    async def abort(self, request: Request) -> Response:
        """End a request of anybody's."""
        return await self._answer(request, self._abort)

    # -- inside ------------------------------------------------------------------------------------

    async def _answer(
        self, request: Request, act: Callable[[Request], Awaitable[Steer]]
    ) -> Response:
        """Let the core act, and tell how things stand then."""
        try:
            if request.method == "POST":
                self._admission.check_json(request)
            steered = await self._client.steer(await act(request))
            if steered.error is not None:
                raise ApiError(400, steered.error)
        except (ApiError, CutawayError) as error:
            refusal = as_api_error(error)
            return JSONResponse(refusal.body(), refusal.status, refusal.headers)
        points = [BreakpointAnswer(id=b.breakpoint_id, when=b.when) for b in steered.breakpoints]
        plan = steered.plan
        state = DevState(
            paused=steered.is_paused,
            next_step=steered.next_step,
            stopped_by=steered.stopped_by,
            knobs=steered.knobs,
            breakpoints=points,
            plan=None
            if plan is None
            else PlanAnswer(
                step=plan.step,
                token_budget=plan.token_budget,
                rows=[
                    PlannedRowAnswer(
                        request_id=row.request_id,
                        code=row.code,
                        num_computed_tokens=row.num_computed_tokens,
                        num_scheduled_tokens=row.num_scheduled_tokens,
                    )
                    for row in plan.rows
                ],
                preempted=plan.preempted,
            ),
        )
        return Response(state.model_dump_json(), media_type="application/json")

    async def _look(self, request: Request) -> Steer:
        return Steer("look")

    async def _pause(self, request: Request) -> Steer:
        return Steer("pause")

    async def _resume(self, request: Request) -> Steer:
        return Steer("resume")

    async def _step(self, request: Request) -> Steer:
        return Steer("step", value=parse(StepBody, await request.body() or b"{}").steps)

    async def _turn_knob(self, request: Request) -> Steer:
        body = parse(KnobBody, await request.body())
        return Steer("knob", body.name, body.value)

    async def _add_breakpoint(self, request: Request) -> Steer:
        return Steer("break", parse(BreakpointBody, await request.body()).when)

    async def _remove_breakpoint(self, request: Request) -> Steer:
        return Steer("unbreak", value=parse(RemoveBody, await request.body()).id)

    async def _abort(self, request: Request) -> Steer:
        """The front end owns requests: it asks the core to end one, then looks."""
        number = parse(AbortRequestBody, await request.body()).request
        found = self._client.find_request(number)
        if not found:
            raise ApiError(404, f"no open request {number}")
        self._client.abort(found, Code.ABORT_CALL)
        return Steer("look")
