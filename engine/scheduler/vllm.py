"""Continuous batching on one token budget: vLLM's V1 scheduler.

The idea: there are no phases. Each sequence has computed some of its tokens and must catch up with the rest;
a step hands out a budget of tokens, first to those that run, in order of admission, then to those that wait.
A decode asks for one token, a prompt for all it has left; what does not fit is a chunk. When a running
sequence finds no block, the last admitted one gives up all of its own and is recomputed later.

Invariant: rows add up to at most the budget; a step that preempted admits nobody; the head of the queue
blocks everybody behind it.

Source: vLLM 0.33 `vllm/v1/core/sched/scheduler.py` (Scheduler.schedule); Orca (Yu et al. 2022) for
iteration-level scheduling; Sarathi-Serve (Agrawal et al. 2024) for chunks mixed with decodes.
"""

from dataclasses import dataclass, field

from engine.batch import Batch, Row
from engine.kv.paged import PagedKV, Shortage
from engine.kv.reserved import ReservedKV
from engine.scheduler.base import Scheduler
from engine.scheduler.queue import urgency
from engine.sequence import Sequence, Status
from tracing.record import Code


@dataclass(slots=True)
class Plan:
    """The step in the making."""

    step: int
    start_ns: int
    budget: int
    """Tokens left to hand out."""
    rows: list[Row] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    cuts: list[tuple[Code, tuple[int, ...]]] = field(default_factory=list)
    """Why the sequence at hand gets less than it wants; told only if it gets anything."""


class VllmScheduler(Scheduler):
    """Running first, then waiting, on one budget."""

    kv: PagedKV | ReservedKV

    def schedule(self) -> Batch | None:
        """Plan the next step; None when nothing can run."""
        if not self.num_unfinished:
            return None
        budget = self.config.max_num_batched_tokens
        plan = Plan(self.num_steps, self.clock(), budget)
        self.recorder.begin_step(plan.step, plan.start_ns)
        self._schedule_running(plan)
        if not plan.preempted:
            self._schedule_waiting(plan)
        elif self.waiting:
            self.recorder.decision(Code.STOP_PREEMPTED, None, len(plan.preempted))
        if not plan.rows and not plan.preempted:
            return None
        rows = tuple(plan.rows)
        self._advance(rows)
        self.num_steps += 1
        return Batch(plan.step, plan.start_ns, rows, tuple(plan.preempted), budget)

    # -- running ---------------------------------------------------------------------------------

    def _schedule_running(self, plan: Plan) -> None:
        """Everybody who runs, in order of admission, takes what it needs of the budget."""
        i = 0
        while i < len(self.running) and plan.budget > 0:
            seq = self.running[i]
            plan.cuts.clear()
            num_tokens = self._tokens_for_running(seq, plan)
            if num_tokens == 0:
                self.recorder.decision(
                    Code.SKIP_ZERO, seq.request_id, seq.num_computed_tokens, seq.num_tokens
                )
                i += 1
                continue
            block_ids = self.kv.append(seq, num_tokens)
            while isinstance(block_ids, Shortage) and seq.status is Status.RUNNING:
                victim = self._choose_victim()
                if self.running.index(victim) < i:
                    i -= 1
                self._preempt(victim, seq, block_ids, plan)
                if victim is not seq:
                    block_ids = self.kv.append(seq, num_tokens)
            if isinstance(block_ids, Shortage):
                continue  # it preempted itself; whoever stood behind it is now at i
            code = Code.RUN_CHUNK if seq.is_prefilling else Code.RUN_DECODE
            self._place(seq, code, num_tokens, block_ids, plan)
            i += 1

    def _tokens_for_running(self, seq: Sequence, plan: Plan) -> int:
        """How far it may catch up in this step: its drafts, the cap, the budget, the model's length."""
        want = seq.num_tokens_with_drafts - seq.num_computed_tokens
        num_tokens = self._cap_long_prefill(want, plan)
        num_tokens = self._cap_budget(seq, num_tokens, plan)
        # The last position is never computed: its token could not be sampled any more (t43).
        most = self.max_model_len - 1 - seq.num_computed_tokens
        if most < num_tokens:
            plan.cuts.append((Code.CUT_MODEL_LEN, (num_tokens, most, self.max_model_len)))
            num_tokens = most
        return num_tokens

    def _place(
        self, seq: Sequence, code: Code, num_tokens: int, block_ids: tuple[int, ...], plan: Plan
    ) -> None:
        """Give the sequence its row, and say why it is shorter than wanted."""
        plan.rows.append(self._make_row(seq, code, num_tokens, block_ids))
        plan.budget -= num_tokens
        for cut, args in plan.cuts:
            self.recorder.decision(cut, seq.request_id, *args)

    # -- preemption ------------------------------------------------------------------------------

    def _choose_victim(self) -> Sequence:
        """The last admitted one; under priority the least urgent, wherever it stands."""
        if self.config.scheduling_policy == "priority":
            return max(self.running, key=urgency)
        return self.running[-1]

    def _preempt(self, victim: Sequence, seq: Sequence, short: Shortage, plan: Plan) -> None:
        """Take everything from the victim: its blocks, and its tokens if this step gave it some already.

        Rule: V1 only recomputes, it never swaps; the victim goes to the front of the queue (t30, t37, t44).
        """
        returned = 0
        for row in plan.rows:
            if row.seq is victim:
                returned = row.num_scheduled_tokens
                plan.rows.remove(row)
                break
        plan.budget += returned
        code, args = Code.PREEMPT_LAST, (short.need, short.free)
        if victim is seq:
            code = Code.PREEMPT_SELF
        elif self.config.scheduling_policy == "priority":
            code, args = Code.PREEMPT_PRIORITY, (victim.request.priority, returned)
        lost, num_blocks = victim.num_computed_tokens, len(victim.block_table)
        self.recorder.decision(
            code, victim.request_id, num_blocks, lost, *args, other=seq.request_id
        )
        self.kv.free(victim)
        self._give_up(victim, plan.start_ns, plan.step)
        plan.preempted.append(victim)

    # -- waiting ---------------------------------------------------------------------------------

    def _schedule_waiting(self, plan: Plan) -> None:
        """Admit from the head of the queue until something stops the loop; nobody overtakes."""
        running = tuple(plan.rows)
        while self.waiting:
            seq = self.waiting.head()
            if self._is_full(seq, plan):
                return
            plan.cuts.clear()
            hit = self.kv.lookup(seq)
            num_tokens = seq.num_tokens - len(hit) * self.config.block_size
            drafts = self._placeholders(seq, num_tokens, running)
            if drafts and num_tokens + len(drafts) > plan.budget:
                self._record_budget(seq, plan)  # rather not now than not uniform
                return
            num_tokens = self._cap_long_prefill(num_tokens + len(drafts), plan)
            if not self.config.enable_chunked_prefill and num_tokens > plan.budget:
                self.recorder.decision(
                    Code.STOP_NO_CHUNKING, seq.request_id, num_tokens, plan.budget
                )
                return
            num_tokens = self._cap_budget(seq, num_tokens, plan)
            given_up = self.kv.given_up(seq, hit)
            block_ids = self.kv.admit(seq, num_tokens, hit, alone=not self.running)
            if isinstance(block_ids, Shortage):
                self._record_shortage(seq, block_ids)
                return
            self._record_lookup(seq, given_up)
            code = Code.ADMIT_NEW if seq.status is Status.WAITING else Code.ADMIT_RESUMED
            if drafts:
                seq.draft_token_ids, code = drafts, Code.SPEC_PAD
            self._admit(seq, plan.start_ns, plan.step)
            self._place(seq, code, num_tokens, block_ids, plan)

    def _is_full(self, seq: Sequence, plan: Plan) -> bool:
        """No budget, or no place for another sequence: the loop ends at this one."""
        limit, code = self.config.max_num_seqs, Code.STOP_MAX_SEQS
        if self.config.max_num_active_seqs is not None:
            limit, code = self.config.max_num_active_seqs, Code.STOP_ACTIVE_SEQS
        if plan.budget == 0:
            self._record_budget(seq, plan)
        elif len(self.running) >= limit:
            self.recorder.decision(code, seq.request_id, len(self.running), limit)
        else:
            return False
        return True

    def _placeholders(self, seq: Sequence, num_tokens: int, running: tuple[Row, ...]) -> list[int]:
        """Drafts (-1) that keep a batch of verifying decodes uniform, for a newcomer with one token left.

        All are rejected. Rule: not where a running sequence computes a chunk, nor where nothing runs and
        nothing was hit, nor where the model's length leaves no room for a token after them (t41, t42).
        """
        k = self.config.num_speculative_tokens
        if num_tokens != 1 or not (running or seq.num_tokens > num_tokens):
            return []
        if any(row.is_prefill for row in running) or seq.num_tokens + k >= self.max_model_len:
            return []
        return [-1] * k

    # -- caps ------------------------------------------------------------------------------------

    def _cap_long_prefill(self, want: int, plan: Plan) -> int:
        """While others exist, one long prompt may not take the whole step (t06, t07)."""
        cap, num_others = self.config.long_prefill_token_threshold, self.num_unfinished
        if cap == 0 or num_others < 2:
            return want
        if self.config.long_prefill_token_threshold_adaptive:
            cap = max(cap, self.config.max_num_batched_tokens // num_others)
        if cap >= want:
            return want
        plan.cuts.append((Code.CUT_LONG_PREFILL, (want, cap, cap, num_others)))
        return cap

    def _cap_budget(self, seq: Sequence, want: int, plan: Plan) -> int:
        """What is left of the budget; drafts are cut like any other token (t40)."""
        if want <= plan.budget:
            return want
        code = Code.CUT_DRAFTS if seq.draft_token_ids else Code.CUT_BUDGET
        plan.cuts.append((code, (want, plan.budget, plan.budget)))
        return plan.budget

    # -- what the trace needs ----------------------------------------------------------------------

    def _record_budget(self, seq: Sequence, plan: Plan) -> None:
        total = self.config.max_num_batched_tokens
        self.recorder.decision(Code.STOP_BUDGET, seq.request_id, total - plan.budget, total)

    def _record_shortage(self, seq: Sequence, short: Shortage) -> None:
        extra = {
            Code.STOP_FULL_PROMPT: (seq.num_tokens,),
            Code.STOP_WATERMARK: (short.keep,),
        }.get(short.code, ())
        self.recorder.decision(short.code, seq.request_id, short.need, short.free, *extra)
