"""The engine core: the loop that everything else serves.

    fill the pipeline    schedule -> submit, until the executor has enough steps in flight
    collect              wait for the oldest step's output
    update               tokens in, ended sequences out, their blocks free
    hand out             one message per request that got something

The same loop runs inside `LLM` and in a process of its own behind the server.

Source: vLLM 0.33 `vllm/v1/engine/core.py` (EngineCore.step, step_with_batch_queue).
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from engine.batch import Batch, StepOutput
from engine.control import Control
from engine.messages import CoreOutput, End, Stats
from engine.recording import StepTimes, record_prompt_units, record_step
from engine.request import Request
from engine.scheduler.base import Finish, Scheduler
from engine.sequence import Sequence
from tracing.record import Code, Recorder


class Executor(Protocol):
    """Runs batches; up to `depth` of them may be submitted before the first is collected."""

    @property
    def depth(self) -> int:
        """How many steps may be in flight."""
        ...

    def submit(self, batch: Batch) -> None:
        """Start a step."""
        ...

    def collect(self) -> StepOutput:
        """Wait for the oldest step in flight."""
        ...

    def close(self) -> None:
        """Give back memory and processes."""
        ...


class EngineCore:
    """Requests in, tokens out, one step at a time."""

    def __init__(
        self,
        scheduler: Scheduler,
        executor: Executor,
        recorder: Recorder,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.scheduler = scheduler
        self.executor = executor
        self.recorder = recorder
        self.clock = clock
        self.sequences: dict[int, Sequence] = {}
        """Unfinished sequences by request id."""
        self._in_flight: deque[tuple[Batch, StepTimes]] = deque()
        self._aborted: list[CoreOutput] = []
        self._control: Control | None = None
        self._num_prefill_tokens = self._num_tokens = self._num_preemptions = 0

    @property
    def has_work(self) -> bool:
        """True while a step would bring something."""
        if self._control is not None and self._control.is_stopped:
            return bool(self._in_flight or self._aborted)
        return bool(self.scheduler.num_unfinished or self._in_flight or self._aborted)

    @property
    def stats(self) -> Stats:
        """How it stands now."""
        scheduler, kv = self.scheduler, self.scheduler.kv
        return Stats(
            num_running=len(scheduler.running),
            num_waiting=len(scheduler.waiting),
            num_used_blocks=kv.num_used,
            num_cached_free_blocks=kv.num_cached_free,
            new_token_ratio=scheduler.new_token_ratio,
            num_steps=scheduler.num_steps,
            num_prefill_tokens=self._num_prefill_tokens,
            num_decode_tokens=self._num_tokens - self._num_prefill_tokens,
            num_preemptions=self._num_preemptions,
        )

    def add(self, request: Request) -> None:
        """Take a request; it waits until a step admits it."""
        seq = self.sequences[request.request_id] = self.scheduler.add(request)
        record_prompt_units(self.recorder, seq, self.scheduler.config.block_size)

    def abort(self, request_id: int, code: Code, a0: int = 0) -> None:
        """End a request now and free its blocks. One that has ended already is left alone."""
        seq = self.sequences.pop(request_id, None)
        if seq is not None:
            self.scheduler.abort(seq)
            now, step = self.clock(), self.scheduler.num_steps
            end = _make_end(Finish(seq, code, a0), now, step - 1)
            self._aborted.append(CoreOutput(request_id, step, now, (), end=end))

    @property
    def control(self) -> Control:
        """Pauses, breakpoints and knobs; the first look at it puts it between scheduler and executor."""
        if self._control is None:
            self._control = Control(self.scheduler, self.recorder)
        return self._control

    def reset_cache(self) -> int | None:
        """Forget every cached prefix; returns how many blocks held one. None: refused, requests are open."""
        if self.sequences or self._in_flight:
            return None
        return self.scheduler.kv.reset_cache()

    def step(self) -> list[CoreOutput]:
        """One turn of the loop: what each request got. Ends of aborted requests come before the next step."""
        if self._aborted:  # who gave up need not wait for a step of the others
            ended, self._aborted = self._aborted, []
            return ended
        while len(self._in_flight) < self.executor.depth:
            batch = self._next_batch()
            if batch is None:
                break
            times = StepTimes(scheduled_ns=self.clock(), in_flight=len(self._in_flight))
            self.executor.submit(batch)
            times.submitted_ns = self.clock()
            self._in_flight.append((batch, times))
        if not self._in_flight:
            self.recorder.flush()
            return []
        batch, times = self._in_flight.popleft()
        output = self.executor.collect()
        times.collected_ns = self.clock()
        finishes = self.scheduler.update(batch, output, times.collected_ns)
        outputs = self._hand_out(batch, output, finishes, times.collected_ns)
        self._count(batch)
        record_step(self.recorder, self.scheduler, batch, output, finishes, times, self.clock())
        return outputs

    def close(self) -> None:
        """End what is open and close the executor; the recorder belongs to whoever made it."""
        for request_id in list(self.sequences):
            self.abort(request_id, Code.ABORT_SHUTDOWN)
        self.recorder.flush()
        self.executor.close()

    def _next_batch(self) -> Batch | None:
        return self.scheduler.schedule() if self._control is None else self._control.next_batch()

    def _count(self, batch: Batch) -> None:
        prefills = (row.num_scheduled_tokens for row in batch.rows if row.is_prefill)
        self._num_prefill_tokens += sum(prefills)
        self._num_tokens += batch.num_tokens
        self._num_preemptions += len(batch.preempted)

    def _hand_out(
        self, batch: Batch, output: StepOutput, finishes: list[Finish], now_ns: int
    ) -> list[CoreOutput]:
        """A message for each row that sampled something and was not aborted meanwhile."""
        ends = {f.seq.request_id: _make_end(f, now_ns, batch.step) for f in finishes}
        outputs = []
        for i, (row, token_ids) in enumerate(zip(batch.rows, output.token_ids, strict=True)):
            request_id = row.seq.request_id
            if not token_ids or self.sequences.get(request_id) is not row.seq:
                continue
            end = ends.get(request_id)
            if end is not None:
                del self.sequences[request_id]
            # What follows a stop inside the same step was never part of the answer.
            kept = row.seq.num_tokens - row.num_tokens
            logprobs = output.logprobs[i] if output.logprobs else None
            outputs.append(
                CoreOutput(
                    request_id,
                    batch.step,
                    now_ns,
                    token_ids[:kept],
                    (logprobs,) if logprobs else (),
                    end,
                )
            )
        return outputs


def _make_end(finish: Finish, end_ns: int, last_step: int) -> End:
    seq = finish.seq
    return End(
        code=finish.code,
        a0=finish.a0,
        end_ns=end_ns,
        last_step=last_step if seq.num_cached_tokens is not None else -1,
        num_cached_tokens=seq.num_cached_tokens,
        num_recomputed_tokens=seq.num_recomputed_tokens,
        num_preemptions=seq.num_preemptions,
        phases=tuple(seq.phases),
    )
