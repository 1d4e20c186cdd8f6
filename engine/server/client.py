"""The core as the API sees it: hand over generations, get their deltas, and keep a core alive.

    starting ─► ready ─► lost ─► restarting (back-off) ─► ready ...          or, too often: over
                          └─ open streams end with the reason, at once; new ones are refused until ready

One task reads the core's outputs, lets the front end turn them into deltas, and sorts these into a queue per
HTTP request. A new core is a new life: nothing of the old one is carried over, and the trace tells them apart
by `engine_id`.

Source: vLLM 0.33 `vllm/v1/engine/async_llm.py` (output handler, RequestOutputCollector).
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal

from engine.frontend import Frontend
from engine.generation import Delta, Generation
from engine.messages import (
    Abort,
    Add,
    CacheReset,
    Failed,
    OpenText,
    ResetCache,
    SetLevel,
    Stats,
    Steer,
    Steered,
    StepOutputs,
    TextOutputs,
)
from engine.server.link import CoreError, CoreLink
from engine.server.logs import LOGGER
from engine.server.metrics import Metrics
from engine.server.restarts import Restarts
from engine.text.detokenizer import Detokenizer
from tracing.record import Code, Level

Queue = asyncio.Queue[Delta | CoreError]
State = Literal["starting", "ready", "restarting", "over"]
StartLink = Callable[[], Awaitable[CoreLink]]
NO_STATS = Stats(0, 0, 0, 0, None, 0, 0, 0, 0)


class CoreClient:
    """The engine of one API process. Must be made inside the event loop."""

    def __init__(
        self,
        start_link: StartLink,
        frontend: Frontend,
        metrics: Metrics,
        on_ready: Callable[[CoreLink], None],
        *,
        has_detokenizer: bool = False,
    ) -> None:
        """`on_ready` is called for each life of the core; `has_detokenizer`: outputs come with their text."""
        self.frontend = frontend
        self.metrics = metrics
        self.state: State = "starting"
        self.failure: CoreError | None = CoreError("the model is still loading")
        """Why no request can be served; None: it can."""
        self.is_draining = False
        """Shutting down: what is open may finish, nothing new is taken."""
        self.stats = NO_STATS
        """The core after its last step."""
        self.link: CoreLink | None = None
        self._start_link, self._on_ready = start_link, on_ready
        self._has_detokenizer = has_detokenizer
        self._queues: dict[Generation, Queue] = {}
        self._resets: list[asyncio.Future[int | None]] = []
        self._steers: list[asyncio.Future[Steered]] = []
        self._heard_s = time.monotonic()
        """When the core said something."""
        self._is_held = False
        """By `engine.control`: it says nothing then, and is well."""
        self._idle = asyncio.Event()
        self._idle.set()
        self.life = asyncio.create_task(self._live())
        """Ends, with CoreError, when the core cannot be started, or not kept alive."""

    # -- requests ----------------------------------------------------------------------------------

    async def stream(self, generations: Sequence[Generation]) -> AsyncGenerator[Delta]:
        """Hand generations to the core; their deltas as they come, until all choices have ended.

        Raises CoreError when the core is lost. Closing the iterator early aborts what is left.
        """
        if self.failure is not None:  # it was lost since the generations were made
            for generation in generations:
                self.frontend.give_up(Code.LOST_ENGINE, generation)
            raise self.failure
        queue: Queue = asyncio.Queue()
        if not self._queues:
            self._heard_s = time.monotonic()
        self._idle.clear()
        self._queues |= dict.fromkeys(generations, queue)
        try:
            self._send(generations)
            num_open = sum(len(generation.choices) for generation in generations)
            while num_open:
                item = await queue.get()
                if isinstance(item, CoreError):
                    raise item
                num_open -= item.finish_reason is not None
                yield item
        finally:
            self.abort(generations, Code.ABORT_CALL)
            for generation in generations:
                del self._queues[generation]
            if not self._queues:
                self._idle.set()

    def abort(self, generations: Iterable[Generation], code: Code, a0: int | None = None) -> None:
        """Ask the core to end what is unfinished; the streams end with its answers."""
        for generation in generations:
            for message in self.frontend.abort(code, generation, a0):
                if self.link is not None:
                    self.link.send(message)

    def give_up(self, generations: Iterable[Generation], code: Code, a0: int) -> None:
        """End what is unfinished without the core: it does not answer."""
        for generation in generations:
            for delta in self.frontend.give_up(code, generation, a0):
                self._queues[generation].put_nowait(delta)

    @property
    def silence_s(self) -> float:
        """How long the core has said nothing although requests are open and nobody holds it still."""
        if not self._queues or self._is_held:
            return 0.0
        return time.monotonic() - self._heard_s

    def find(self, external_id: str) -> list[Generation]:
        """Open generations that a client knows by this id."""
        return [g for g in self._queues if g.arrival.external_id == external_id]

    def find_request(self, number: int) -> list[Generation]:
        """Open generations with the request of this id, or of this number behind the front end's own."""
        return [
            generation
            for generation in self._queues
            if any(number in (r.request_id, r.request_id & 0xFFFFFFFF) for r in generation.requests)
        ]

    # -- control -----------------------------------------------------------------------------------

    def set_level(self, level: Level) -> None:
        """Record at this level from now on, here and in the core."""
        self.frontend.telemetry.recorder.set_level(level)
        self.frontend.telemetry.recorder.flush()
        if self.link is not None:
            self.link.send(SetLevel(level))

    async def reset_cache(self) -> int | None:
        """Forget all cached prefixes; returns how many blocks held one, None if requests are open.

        Raises CoreError when there is no core.
        """
        if self.failure is not None or self.link is None:
            raise self.failure or CoreError("there is no engine core")
        answer: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self.link.send(ResetCache())
        self._resets.append(answer)  # after sending: what was not sent gets no answer
        return await answer

    async def steer(self, message: Steer) -> Steered:
        """Hold the core still, let it go on, change a limit. Raises CoreError when there is no core."""
        if self.failure is not None or self.link is None:
            raise self.failure or CoreError("there is no engine core")
        answer: asyncio.Future[Steered] = asyncio.get_running_loop().create_future()
        self.link.send(message)
        self._steers.append(answer)
        return await answer

    async def drain(self, limit_s: float, hurry: asyncio.Event) -> None:
        """Take nothing new; give open streams `limit_s` (or until `hurry`), then abort them."""
        self.is_draining = True
        recorder = self.frontend.telemetry.recorder
        recorder.event(Code.DRAIN, len(self._queues), round(limit_s * 1000))
        idle, hurried = (asyncio.create_task(event.wait()) for event in (self._idle, hurry))
        await asyncio.wait({idle, hurried}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        self.abort(list(self._queues), Code.ABORT_SHUTDOWN)
        await asyncio.wait({idle}, timeout=1.0 if hurry.is_set() else max(limit_s, 1.0))
        for task in (idle, hurried):
            task.cancel()

    async def close(self, patience_s: float) -> None:
        """End the core, and with it whatever still waits for it."""
        self.life.cancel()
        with contextlib.suppress(asyncio.CancelledError, CoreError):
            await self.life
        if self.link is not None:
            await self.link.stop(patience_s)

    # -- the core's life -----------------------------------------------------------------------------

    async def _live(self) -> None:
        """Start a core, listen to it, and when it dies start another."""
        restarts = Restarts()
        self._begin(await self._start_link(), 0)
        while True:
            assert self.link is not None
            error = await self._listen(self.link)
            self._lose(self.link, error)
            await self.link.stop()
            await self._restart(restarts, error)

    async def _restart(self, restarts: Restarts, error: CoreError) -> None:
        """Returns with a core that is ready. Raises CoreError when it has failed too often."""
        while True:
            delay_s = restarts.next_delay()
            if delay_s is None:
                self.state = "over"
                raise CoreError(f"{error}, {restarts.num_restarts} times in a row: giving up")
            self.link = None
            await asyncio.sleep(delay_s)
            try:
                self._begin(await self._start_link(), restarts.num_restarts)
            except CoreError as again:
                error = again
            else:
                return

    def _begin(self, link: CoreLink, attempt: int) -> None:
        self.link, ready = link, link.ready
        self.frontend.max_model_len = ready.max_model_len
        self.frontend.engine_id = ready.engine_id
        telemetry = self.frontend.telemetry
        if attempt:
            telemetry.recorder.event(Code.PROC_STARTED, ready.proc_id, attempt)
        telemetry.started("engine", link.phases, ready.engine_id)
        self.stats = NO_STATS
        self.metrics.started(ready, link.phases, attempt)
        self.state, self.failure, self._is_held = "ready", None, False
        self._on_ready(link)

    async def _listen(self, link: CoreLink) -> CoreError:
        """Sort what the core says into the streams; returns why it ended."""
        try:
            while True:
                said = await link.receive()
                self._heard_s = time.monotonic()
                match said:
                    case StepOutputs(outputs, stats):
                        self._sort(link, *self.frontend.process(outputs), stats)
                    case TextOutputs(outputs, pieces, stats, sent_ns):
                        found = zip(outputs, pieces, strict=True)
                        self._sort(link, *self.frontend.process_pieces(found, sent_ns), stats)
                    case CacheReset(num_blocks):
                        answer = self._resets.pop(0)
                        if not answer.done():  # else nobody waits for it any more
                            answer.set_result(num_blocks)
                    case Steered() as steered:
                        self._is_held = steered.is_paused
                        waiting = self._steers.pop(0)
                        if not waiting.done():
                            waiting.set_result(steered)
                    case Failed(message):
                        return CoreError(f"the engine core failed: {message}")
                    case other:
                        raise AssertionError(f"{other} from a core that is ready")
        except CoreError as error:
            return error
        except Exception as error:  # a bug of ours: nobody may wait for ever because of it
            LOGGER.exception("the front end failed")
            return CoreError(f"the front end failed: {type(error).__name__}")

    def _sort(
        self, link: CoreLink, deltas: list[Delta], aborts: Sequence[Abort], stats: Stats
    ) -> None:
        self.metrics.stepped(self.stats, stats)
        self.stats = stats
        for abort in aborts:
            link.send(abort)
        for delta in deltas:
            self.metrics.brought(delta)
            queue = self._queues.get(delta.generation)
            if queue is not None:
                queue.put_nowait(delta)

    def _send(self, generations: Sequence[Generation]) -> None:
        assert self.link is not None
        for generation in generations:
            for request in generation.requests:
                if self._has_detokenizer:
                    tail = Detokenizer.prompt_tail(request.prompt_token_ids)
                    self.link.send_text(OpenText(request.request_id, tail, request.params))
                self.link.send(Add(request))

    def _lose(self, link: CoreLink, error: CoreError) -> None:
        self.state, self.failure, self.stats = "restarting", error, NO_STATS
        recorder = self.frontend.telemetry.recorder
        recorder.event(Code.PROC_DIED, link.dead_proc_id, link.exit_signal)
        recorder.flush()
        self.metrics.lost()
        for delta in self.frontend.give_up(Code.LOST_ENGINE):
            self.metrics.brought(delta)
        for queue in set(self._queues.values()):
            queue.put_nowait(error)
        answers: list[asyncio.Future[Any]] = [*self._resets, *self._steers]
        for answer in answers:
            if not answer.done():
                answer.set_exception(error)
        self._resets.clear()
        self._steers.clear()
