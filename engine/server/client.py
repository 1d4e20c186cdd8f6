"""The core as the API sees it: hand over generations, get their deltas, each on its own stream.

One task reads the core's outputs, lets the front end turn them into deltas, and sorts these into a queue per
HTTP request. If the core dies, every open stream ends with the reason, and every later one at once.

Source: vLLM 0.33 `vllm/v1/engine/async_llm.py` (output handler, RequestOutputCollector).
"""

import asyncio
import contextlib
import traceback
from collections.abc import AsyncGenerator, Sequence

from engine.frontend import Frontend
from engine.generation import Delta, Generation
from engine.messages import Add, CoreOutput, Failed
from engine.server.link import CoreError, CoreLink
from tracing.record import NULL, Code

Queue = asyncio.Queue[Delta | CoreError]


class CoreClient:
    """Open streams of one API process. Must be made inside the event loop."""

    def __init__(self, link: CoreLink, frontend: Frontend) -> None:
        self.frontend = frontend
        self.failure: CoreError | None = None
        """Why no request can be served any more."""
        self.is_draining = False
        """Shutting down: what is open may finish, nothing new is taken."""
        self._link = link
        self._queues: dict[Generation, Queue] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._reader = asyncio.create_task(self._read())

    async def stream(self, generations: Sequence[Generation]) -> AsyncGenerator[Delta]:
        """Hand generations to the core; their deltas as they come, until all choices have ended.

        Raises CoreError when the core is lost. Closing the iterator early aborts what is left.
        """
        if self.failure is not None:  # it was lost since the generations were made
            self.frontend.give_up(Code.LOST_ENGINE)
            raise self.failure
        queue: Queue = asyncio.Queue()
        self._idle.clear()
        self._queues |= dict.fromkeys(generations, queue)
        try:
            for generation in generations:
                for request in generation.requests:
                    self._link.send(Add(request))
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

    def abort(self, generations: Sequence[Generation], code: Code) -> None:
        """Ask the core to end what is unfinished; the streams end with its answers."""
        for generation in generations:
            for message in self.frontend.abort(code, generation):
                self._link.send(message)

    async def drain(self, limit_s: float, hurry: asyncio.Event) -> None:
        """Take nothing new; give open streams `limit_s` (or until `hurry`), then abort them."""
        self.is_draining = True
        recorder = self.frontend.telemetry.recorder
        recorder.event(Code.DRAIN, len(self._queues), round(limit_s * 1000))
        idle, hurried = (asyncio.create_task(event.wait()) for event in (self._idle, hurry))
        await asyncio.wait({idle, hurried}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        self.abort(list(self._queues), Code.ABORT_SHUTDOWN)
        await asyncio.wait({idle}, timeout=limit_s)
        for task in (idle, hurried):
            task.cancel()

    async def close(self) -> None:
        """Stop reading. Whoever made the link stops the core."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader

    async def _read(self) -> None:
        """The reading task."""
        try:
            while True:
                message = await self._link.receive()
                if isinstance(message, Failed):
                    raise CoreError(f"the engine core failed: {message.message}")
                assert isinstance(message, list)
                self._sort(message)
        except CoreError as error:
            self._lose(error)
        except Exception as error:  # a bug of ours: nobody may wait for ever because of it
            traceback.print_exc()
            self._lose(CoreError(f"the front end failed: {error!r}"))

    def _sort(self, outputs: list[CoreOutput]) -> None:
        deltas, aborts = self.frontend.process(outputs)
        for abort in aborts:
            self._link.send(abort)
        for delta in deltas:
            queue = self._queues.get(delta.generation)
            if queue is not None:
                queue.put_nowait(delta)

    def _lose(self, error: CoreError) -> None:
        self.failure = error
        recorder = self.frontend.telemetry.recorder
        recorder.event(Code.PROC_DIED, NULL, self._link.exit_signal)
        recorder.flush()
        self.frontend.give_up(Code.LOST_ENGINE)
        for queue in set(self._queues.values()):
            queue.put_nowait(error)
