"""What every scheduler does the same way: take requests in, apply a step's output, end and preempt.

A policy is one method, `schedule`, in its own file. Everything here is bookkeeping with one rule each.

Invariant: a sequence is in exactly one of `waiting` and `running`, or finished; it holds blocks only while
running. `num_computed_tokens` is advanced when a step is *planned*, and taken back for rejected drafts.

Source: vLLM 0.33 `vllm/v1/core/sched/scheduler.py` (add_request, update_from_output, finish_requests).
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from engine.batch import Batch, Row, StepOutput
from engine.config import EngineConfig
from engine.request import Request
from engine.scheduler.queue import FcfsQueue, PriorityQueue, WaitingQueue
from engine.sequence import Sequence, Status
from tracing.record import Code, Phase, Recorder


class KV(Protocol):
    """What every policy needs of KV bookkeeping; how blocks are found and given out is between the two."""

    @property
    def num_used(self) -> int:
        """Blocks in use."""
        ...

    @property
    def num_free(self) -> int:
        """Blocks that can be given out, cached or not."""
        ...

    @property
    def num_cached_free(self) -> int:
        """Of these, those that a later prompt could still hit."""
        ...

    def track(self, seq: Sequence) -> None:
        """Tokens were added to the sequence."""
        ...

    def enter_full_blocks(self, seq: Sequence, num_tokens: int) -> None:
        """The first so many tokens are verified: their whole blocks may be shared."""
        ...

    def free(self, seq: Sequence) -> None:
        """Let go of all blocks of a running sequence."""
        ...

    def reset_cache(self) -> int:
        """Forget every prefix, while nothing is held; returns how many blocks held one."""
        ...


@dataclass(frozen=True, slots=True)
class Finish:
    """A sequence that ended, the reason, and the reason's argument (the stop token, the length)."""

    seq: Sequence
    code: Code
    a0: int


class Scheduler(ABC):
    """Decides, step by step, which sequences run and how many tokens each computes."""

    def __init__(
        self,
        config: EngineConfig,
        kv: KV,
        recorder: Recorder,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        assert config.max_model_len is not None
        self.config = config
        self.kv = kv
        self.recorder = recorder
        self.clock = clock
        self.max_model_len = config.max_model_len
        priority = config.scheduling_policy == "priority"
        self.waiting: WaitingQueue = PriorityQueue() if priority else FcfsQueue()
        self.running: list[Sequence] = []
        """In order of admission."""
        self.num_steps = 0

    @abstractmethod
    def schedule(self) -> Batch | None:
        """Plan the next step; None when there is nothing to run."""

    @property
    def new_token_ratio(self) -> float | None:
        """Share of the possible output of running requests that is set aside (sglang)."""
        return None

    @property
    def num_unfinished(self) -> int:
        """Sequences that wait or run."""
        return len(self.waiting) + len(self.running)

    def add(self, request: Request) -> Sequence:
        """A request arrives: it waits."""
        seq = Sequence(request, self.clock())
        self.kv.track(seq)
        self.waiting.add(seq)
        return seq

    def abort(self, seq: Sequence) -> None:
        """End a sequence from outside, between steps or during one; its token in flight is dropped."""
        if seq.is_finished:
            return
        if seq.status is Status.RUNNING:
            self.running.remove(seq)
            self.kv.free(seq)
        else:
            self.waiting.remove(seq)
        seq.status = Status.FINISHED

    def update(self, batch: Batch, output: StepOutput, now_ns: int) -> list[Finish]:
        """Apply what the model returned: tokens in, rejected drafts back, ended sequences out."""
        finished: list[Finish] = []
        for row, token_ids in zip(batch.rows, output.token_ids, strict=True):
            seq = row.seq
            if seq.is_finished:
                continue  # aborted while the step ran, or a static batch's padding
            if row.draft_token_ids and token_ids:
                seq.num_computed_tokens -= len(row.draft_token_ids) + 1 - len(token_ids)
            finish = self._append(seq, token_ids, now_ns)
            if row.draft_token_ids:
                # Only now is it known which drafts are real: enter the blocks that those filled.
                self.kv.enter_full_blocks(seq, min(seq.num_computed_tokens, seq.num_tokens - 1))
            if finish is not None:
                finished.append(finish)
                self._finish(seq)
        if finished:
            self._remove_finished()
        return finished

    def _append(self, seq: Sequence, token_ids: tuple[int, ...], now_ns: int) -> Finish | None:
        """Add sampled tokens one by one, up to the first that ends the sequence; the rest is trimmed."""
        finish = None
        for token_id in token_ids:
            if seq.num_output_tokens == 0 or seq.phases[-1][0] == Phase.PREFILL:
                seq.enter(Phase.DECODE, now_ns, self.num_steps)
            seq.token_ids.append(token_id)
            finish = self._check_stop(seq, token_id)
            if finish is not None:
                break
        if token_ids:
            self.kv.track(seq)
        return finish

    def _check_stop(self, seq: Sequence, token_id: int) -> Finish | None:
        """Does this token end the sequence? Stop tokens first, then lengths.

        Rule: `vllm/v1/core/sched/utils.py` check_stop (t35).
        """
        params = seq.request.params
        if seq.num_output_tokens >= params.min_tokens:
            if not params.ignore_eos and token_id == seq.request.eos_token_id:
                return Finish(seq, Code.END_EOS, token_id)
            if token_id in params.stop_token_ids:
                return Finish(seq, Code.END_STOP_TOKEN, token_id)
        if seq.num_tokens >= self.max_model_len:
            return Finish(seq, Code.END_MODEL_LEN, seq.num_tokens)
        if params.max_tokens is not None and seq.num_output_tokens >= params.max_tokens:
            return Finish(seq, Code.END_LENGTH, seq.num_output_tokens)
        return None

    def _finish(self, seq: Sequence) -> None:
        """Free at once: the next step may need the room."""
        seq.status = Status.FINISHED
        self.kv.free(seq)

    def _remove_finished(self) -> None:
        self.running = [seq for seq in self.running if not seq.is_finished]

    def _admit(self, seq: Sequence, start_ns: int, step: int) -> None:
        """From waiting to running."""
        self.waiting.remove(seq)
        self.running.append(seq)
        seq.status = Status.RUNNING
        seq.enter(Phase.PREFILL, start_ns, step)
        if seq.num_cached_tokens is None:
            seq.num_cached_tokens = seq.num_computed_tokens

    def _give_up(self, seq: Sequence, start_ns: int, step: int) -> None:
        """A running sequence lost its memory: it waits again, and computes everything once more."""
        self.running.remove(seq)
        seq.max_computed_tokens = max(seq.max_computed_tokens, seq.num_computed_tokens)
        seq.num_computed_tokens = 0
        seq.draft_token_ids = []
        seq.num_preemptions += 1
        seq.status = Status.PREEMPTED
        seq.enter(Phase.PREEMPTED, start_ns, step)
        self.waiting.put_back(seq)

    def _make_row(
        self, seq: Sequence, code: Code, num_scheduled_tokens: int, block_ids: tuple[int, ...]
    ) -> Row:
        """Fix a sequence's share of the step, and count what it computes a second time."""
        computed, length = seq.num_computed_tokens, seq.num_tokens
        lost = min(computed + num_scheduled_tokens, seq.max_computed_tokens) - computed
        recomputed = max(0, lost)
        num_drafts = max(0, computed + num_scheduled_tokens - length)
        drafts = tuple(seq.draft_token_ids[:num_drafts])
        return Row(seq, code, computed, num_scheduled_tokens, length, recomputed, block_ids, drafts)

    def _advance(self, rows: tuple[Row, ...]) -> None:
        """The step is planned: count its tokens as computed, before the model runs."""
        for row in rows:
            seq = row.seq
            seq.num_computed_tokens += row.num_scheduled_tokens
            seq.num_recomputed_tokens += row.num_recomputed_tokens
            seq.draft_token_ids = []

    def _record_lookup(self, seq: Sequence, given_up: int) -> None:
        """What the prefix cache gave at admission; exactly one such record per admission."""
        hit, unit = seq.num_computed_tokens, self.config.block_size
        if not self.config.enable_prefix_caching or seq.request.skip_reading_prefix_cache:
            code = Code.HIT_NOT_READ
        elif seq.status is Status.PREEMPTED:
            code = Code.HIT_OWN
        elif given_up:
            radix = self.config.cache == "radix"
            code = Code.HIT_FULL_TOKEN if radix else Code.HIT_FULL_BLOCK
        else:
            code = Code.HIT_PART if hit else Code.HIT_NONE
        self.recorder.decision(code, seq.request_id, hit, seq.num_tokens, given_up, unit)
