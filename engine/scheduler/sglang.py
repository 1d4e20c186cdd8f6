"""Prefill first: SGLang's scheduler, in its normal (not overlapped) loop.

The idea: a step is either a prefill or a decode. Whoever can be admitted is prefilled at once, and all who
run stand still meanwhile; only when nobody can be admitted they decode, all together. So the running batch
grows fast, and what limits it is memory: admission sets aside a share of what running requests may still
produce (the new-token ratio), and when that was too little somebody is retracted.

    schedule
     ├─ join       whose prefill ended in the last step joins the running batch, who has ended leaves it
     ├─ prefill    the next chunk of the cut prompt, then the queue in the policy's order up to the first that
     │             does not fit; with mixed chunks the running batch comes along, one token each
     └─ decode     else: one token for each of the running batch, after retracting as many as it takes

Invariant: at most one prompt is cut at a time; nobody overtakes the head of the ordered queue; while
`is_full` is set and no prompt is cut, admission is not even tried.

Source: SGLang 0.5.23 `sglang/srt/managers/scheduler.py` (get_next_batch_to_run, process_batch_result;
t01-t24).
"""

from dataclasses import dataclass, field, replace

from engine.batch import Batch, Row, StepOutput
from engine.config import EngineConfig
from engine.kv.radix import RadixKV
from engine.request import Request
from engine.scheduler.base import Finish, Scheduler
from engine.scheduler.sglang_adder import Admission, PrefillAdder
from engine.scheduler.sglang_policy import QueuePolicy
from engine.scheduler.sglang_queue import SglangQueue
from engine.scheduler.sglang_ratio import NewTokenRatio, ratio_after_retraction
from engine.scheduler.sglang_retract import Victim, decode_fits, decode_need, retract, take_memory
from engine.scheduler.sglang_walk import QueueWalk
from engine.sequence import Sequence, Status
from tracing.record import Code, Recorder


@dataclass(slots=True)
class Plan:
    """The step in the making."""

    step: int
    start_ns: int
    budget: int = 0
    """Tokens that a prefill may compute; of a decode the most rows."""
    preempted: list[Sequence] = field(default_factory=list)


class SglangScheduler(Scheduler):
    """Prefill first, then decode."""

    kv: RadixKV
    waiting: SglangQueue

    def __init__(self, config: EngineConfig, kv: RadixKV, recorder: Recorder) -> None:
        super().__init__(config, kv, recorder)
        self.waiting = SglangQueue()
        self.decoding: list[Sequence] = []
        """The running batch: whose prefill is done, in the order in which they joined."""
        self.chunked: Sequence | None = None
        """Whose prompt is cut."""
        self.is_full = False
        """Admission is shut until somebody leaves the running batch."""
        self.ratio = NewTokenRatio(config.sglang.schedule_conservativeness)
        self.policy = QueuePolicy(config, kv, recorder)
        self._joining: tuple[Sequence, ...] = ()
        """Rows of the last step, if it was a prefill."""
        self._num_joining_tokens = 0
        """Tokens of the last prefill."""
        self._num_founding_tokens = 0
        """Tokens of the prefill with which the running batch began."""
        self._in_flight = False

    @property
    def new_token_ratio(self) -> float:
        """Share of the possible output of running requests that is set aside."""
        return self.ratio.current

    def schedule(self) -> Batch | None:
        """Plan the next step; None when nothing can run, or while the last step's output is not known."""
        if self._in_flight:
            return None
        plan = Plan(self.num_steps, self.clock())
        self._join()
        if not self.num_unfinished:
            self._set_ratio(self.ratio.init, 2)
            return None
        self.recorder.begin_step(plan.step, plan.start_ns)
        rows = self._prefill(plan) or self._decode(plan)
        if not rows and not plan.preempted:
            return None
        self._advance(tuple(rows))
        # A batch keeps its count while it decodes, so the clock goes on by it (upstream's run_batch).
        aged = self._num_joining_tokens if self._joining else self._num_founding_tokens
        self.waiting.clock_tokens += aged
        self.num_steps += 1
        self._in_flight = True
        return Batch(plan.step, plan.start_ns, tuple(rows), tuple(plan.preempted), plan.budget)

    def add(self, request: Request) -> Sequence:
        """A request arrives; what it may produce is clipped to what an empty pool could hold (t11)."""
        size, num_prompt = self.config.block_size, len(request.prompt_token_ids)
        paged = -(-num_prompt // size) * size
        most = min(self.kv.num_tokens - paged - size - 1, self.max_model_len - num_prompt)
        max_tokens = min(request.params.max_tokens or most, most)
        params = replace(request.params, max_tokens=max(1, max_tokens))
        return super().add(replace(request, params=params))

    def abort(self, seq: Sequence) -> None:
        """End a sequence from outside. One that decodes leaves what it has computed to the cache (q07)."""
        if seq.is_finished:
            return
        if seq in self.decoding:
            self.kv.checkpoint(seq)
        if seq is self.chunked:
            self.chunked = None
        super().abort(seq)
        self.waiting.forget(seq)

    def update(self, batch: Batch, output: StepOutput, now_ns: int) -> list[Finish]:
        """Apply what the model returned, and publish prefills that are complete and requests that ended."""
        self._in_flight = False
        finished: list[Finish] = []
        for row, token_ids in zip(batch.rows, output.token_ids, strict=True):
            seq = row.seq
            if seq.is_finished:
                continue  # aborted while the step ran
            finish = self._append(seq, token_ids, now_ns)
            if finish is not None:
                finished.append(finish)
                self._finish(seq)
            elif row.samples and row.is_prefill:
                self.kv.checkpoint(seq)
        if finished:
            self._remove_finished()
        return finished

    def _finish(self, seq: Sequence) -> None:
        self.kv.checkpoint(seq)
        super()._finish(seq)
        self.waiting.forget(seq)

    def _join(self) -> None:
        """Bring the running batch up to date with the last step; whoever leaves opens admission again."""
        if self.chunked is not None and self._joining:
            self.kv.checkpoint(self.chunked)
        joining = [seq for seq in self._joining if not seq.is_finished and seq is not self.chunked]
        if len(joining) < len(self._joining):
            self.is_full = False
        if joining and not self.decoding:
            self.is_full = False
            self._num_founding_tokens = self._num_joining_tokens
        self._joining = ()
        before = [*self.decoding, *joining]
        self.decoding = [seq for seq in before if not seq.is_finished]
        if len(self.decoding) < len(before):
            self.is_full = False

    # -- prefill -----------------------------------------------------------------------------------

    def _prefill(self, plan: Plan) -> list[Row]:
        """The next chunk and whoever can be admitted; empty if nobody can."""
        if not self._may_admit():
            return []
        config = self.config.sglang
        plan.budget = min(
            config.max_prefill_tokens, config.chunked_prefill_size or config.max_prefill_tokens
        )
        self.policy.sort(self.waiting, self.decoding)
        num_mixed = len(self.decoding) if config.enable_mixed_chunk else 0
        caching = self.config.enable_prefix_caching
        ratio = self.ratio.current
        adder = PrefillAdder(self.kv, config, self.decoding, ratio, num_mixed, caching=caching)
        victims = self._continue_chunk(adder)
        most, is_full = self.config.max_num_seqs, self.is_full
        walk = QueueWalk(self.kv, self.waiting, adder, most, self.recorder, is_full=is_full)
        walk.run()
        self.is_full = walk.is_full
        rows = self._prefill_rows(adder.admitted, plan)
        for victim in victims + walk.pushed_out:
            self._requeue(victim, plan)
        if rows:
            self._joining = tuple(row.seq for row in rows)
            rows += self._mix()
            self._num_joining_tokens = sum(row.num_scheduled_tokens for row in rows)
        return rows

    def _may_admit(self) -> bool:
        """Is it worth to look at the queue at all?"""
        can_push_out = self.config.sglang.enable_priority_preemption
        if can_push_out or not self.decoding:
            self.is_full = False
        if self.chunked is not None:
            return True
        if not self.waiting:
            return False
        head, num, most = self.waiting.head(), len(self.decoding), self.config.max_num_seqs
        if self.is_full:
            num_waiting = len(self.waiting)
            self.recorder.decision(Code.STOP_FULL_FLAG, head.request_id, num, num_waiting)
        elif num >= most and not can_push_out:
            self.is_full = True
            self.recorder.decision(Code.STOP_ROWS, head.request_id, num, most)
        return not self.is_full

    def _continue_chunk(self, adder: PrefillAdder) -> list[Victim]:
        """The cut prompt goes first. Where upstream runs out of memory and stops, it is retracted."""
        seq, self.chunked = self.chunked, None
        if seq is None:
            return []
        self.waiting.ticket(seq).num_seen_tokens = seq.num_tokens
        limit = self.policy.chunk_limit(seq, self.waiting, adder.chunk_left, adder.page_size)
        if adder.continue_chunk(seq, limit):
            return []
        victim = take_memory(self.kv, seq, 0)
        self._record_retraction(victim, adder.page_size)
        return [victim]

    def _prefill_rows(self, admitted: list[Admission], plan: Plan) -> list[Row]:
        """Blocks and rows for all that are admitted, at once."""
        num_tokens, size = sum(a.num_tokens for a in admitted), self.config.block_size
        # Upstream makes room for one more block each, though few need it.
        spare = len(admitted) * size if size > 1 else 0
        if admitted:
            self.kv.make_room(num_tokens + spare, admitted[0].seq.request_id)
        return [self._prefill_row(admission, plan) for admission in admitted]

    def _prefill_row(self, admission: Admission, plan: Plan) -> Row:
        seq, code = admission.seq, Code.RUN_CHUNK
        if seq.status is not Status.RUNNING:
            code = Code.ADMIT_NEW if admission.cut is None else Code.ADMIT_CUT
            if seq.status is Status.PREEMPTED:
                code = Code.ADMIT_RESUMED
            self._record_lookup(seq, admission.given_up)
            self._admit(seq, plan.start_ns, plan.step)
        if admission.cut is not None:
            self.chunked = seq
            self.recorder.decision(admission.cut[0], seq.request_id, *admission.cut[1])
        ids = self.kv.append(seq, admission.num_tokens)
        if code != Code.RUN_CHUNK:
            ids = tuple(block.block_id for block in seq.block_table)
        return self._make_row(seq, code, admission.num_tokens, ids)

    def _mix(self) -> list[Row]:
        """The running batch joins the prefill, if it may and fits; else it stands still."""
        num = len(self.decoding)
        if num == 0:
            return []
        both = (*self._joining, *self.decoding)
        silent = all(seq.request.params.logprobs is None for seq in both)
        if not self.config.sglang.enable_mixed_chunk or not silent:
            self.recorder.decision(Code.SKIP_PREFILL_FIRST, None, num)
            return []
        if not decode_fits(self.kv, self.decoding):
            free = self.kv.pool.num_free * self.config.block_size
            self.recorder.decision(Code.SKIP_NO_MIX, None, num, free)
            return []
        for seq in self.decoding:
            self.waiting.ticket(seq).num_seen_tokens = seq.num_tokens
        rows = self._decode_rows(Code.MIX_DECODE)
        self._joining, self.decoding = both, []
        return rows

    # -- decode ------------------------------------------------------------------------------------

    def _decode(self, plan: Plan) -> list[Row]:
        """One token for each of the running batch, or of those that are left after a retraction."""
        if not self.decoding:
            return []
        plan.budget = self.config.max_num_seqs
        if decode_fits(self.kv, self.decoding):
            self.ratio.step()
        else:
            self._retract(plan)
        return self._decode_rows(Code.RUN_DECODE)

    def _decode_rows(self, code: Code) -> list[Row]:
        seqs, size = self.decoding, self.config.block_size
        # Upstream makes room for a block each, though only those at a block's end need one.
        self.kv.make_room(len(seqs) * size, seqs[0].request_id)
        return [self._make_row(seq, code, 1, self.kv.append(seq, 1)) for seq in seqs]

    def _retract(self, plan: Plan) -> None:
        """Take memory until the rest fits, and queue the victims again."""
        need = decode_need(self.kv, self.decoding)
        done = retract(self.kv, self.decoding, self.config.sglang)
        # What a request may produce was clipped on arrival, so that it always fits alone.
        assert done.aborted is None
        self.decoding = done.kept
        self.is_full = False
        for victim in done.retracted:
            self._record_retraction(victim, need)
            self._requeue(victim, plan)
        self._set_ratio(ratio_after_retraction(done.kept), 1)

    def _requeue(self, victim: Victim, plan: Plan) -> None:
        if victim.num_evicted_tokens:
            args = (victim.num_evicted_tokens, victim.num_left)
            self.recorder.decision(Code.RETRACT_EVICT, victim.seq.request_id, *args)
        self._give_up(victim.seq, plan.start_ns, plan.step)
        plan.preempted.append(victim.seq)

    def _record_retraction(self, victim: Victim, need: int) -> None:
        seq = victim.seq
        if self.config.sglang.retraction_policy == "priority":
            args = (seq.request.priority, seq.num_output_tokens)
            self.recorder.decision(Code.RETRACT_PRIORITY, seq.request_id, *args)
        else:
            sizes = (seq.num_output_tokens, seq.num_prompt_tokens, need, victim.num_room_tokens)
            self.recorder.decision(Code.RETRACT_SHORTEST, seq.request_id, *sizes)

    def _set_ratio(self, ratio: float, cause: int) -> None:
        """cause: 1 a retraction, 2 the engine is idle; the decay is in each step's own record."""
        old, self.ratio.current = self.ratio.current, ratio
        if ratio != old:
            args = (round(old * 1e6), round(ratio * 1e6), cause)
            self.recorder.decision(Code.RATIO_SET, None, *args)
