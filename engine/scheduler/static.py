"""Static batching: the baseline that continuous batching improves on.

The idea: take as many waiting requests as fit, prefill them all, decode until *all* of them have ended, only
then take the next ones. A sequence that ends early keeps its place and computes padding; a request that
arrives one step late waits for the longest answer of a batch that it is not in.

Invariant: nothing is admitted while a batch is unfinished; every member holds room for its longest possible
length from the start, so nothing is ever preempted.

Source: request-level batching as in Orca's baseline (Yu et al. 2022, section 3). Prompts are not padded to
the longest one here, because the executor takes ragged batches: the waste shown is that of early ends.
"""

from engine.batch import Batch, Row
from engine.kv.paged import PagedKV, Shortage
from engine.kv.reserved import ReservedKV
from engine.scheduler.base import Scheduler
from engine.sequence import Sequence, Status
from tracing.record import Code


class StaticScheduler(Scheduler):
    """One closed batch after another."""

    kv: PagedKV | ReservedKV

    def schedule(self) -> Batch | None:
        """Prefill the batch to its end, then decode all of it together."""
        if not self.num_unfinished:
            return None
        step, start_ns = self.num_steps, self.clock()
        self.recorder.begin_step(step, start_ns)
        if not self.running:
            self._form_batch(start_ns, step)
        elif self.waiting:
            unfinished = sum(not seq.is_finished for seq in self.running)
            head = self.waiting.head().request_id
            self.recorder.decision(Code.STOP_BATCH_BUSY, head, unfinished, len(self.running))
        rows = tuple(self._prefill_rows() or self._decode_rows())
        if not rows:
            return None
        self._advance(tuple(row for row in rows if row.code != Code.PAD_STATIC))
        self.num_steps += 1
        return Batch(step, start_ns, rows, (), self.config.max_num_batched_tokens)

    def abort(self, seq: Sequence) -> None:
        """A member that is aborted keeps its place as padding, like one that ended early."""
        if seq.status is Status.RUNNING:
            self._finish(seq)
            self._remove_finished()
        else:
            super().abort(seq)

    def _form_batch(self, start_ns: int, step: int) -> None:
        """Admit while there is a place and room for every member's longest length."""
        assert self.config.num_blocks is not None
        room = self.config.num_blocks - 1
        while self.waiting:
            seq = self.waiting.head()
            if len(self.running) >= self.config.max_num_seqs:
                args = (len(self.running), self.config.max_num_seqs)
                self.recorder.decision(Code.STOP_MAX_SEQS, seq.request_id, *args)
                return
            need = self._longest(seq)
            if need > room:
                self.recorder.decision(Code.STOP_RESERVE, seq.request_id, need, room)
                return
            hit = self.kv.lookup(seq)
            num_tokens = seq.num_tokens - len(hit) * self.config.block_size
            given_up = self.kv.given_up(seq, hit)
            got = self.kv.admit(seq, num_tokens, hit, alone=True)
            if isinstance(got, Shortage):
                self.recorder.decision(got.code, seq.request_id, got.need, got.free)
                return
            room -= need
            self._record_lookup(seq, given_up)
            self._admit(seq, start_ns, step)

    def _prefill_rows(self) -> list[Row]:
        """Chunks of the prompts that are not computed yet, in order, within the budget.

        Also of members that were aborted: others of the batch may have hit their blocks.
        """
        rows: list[Row] = []
        budget = self.config.max_num_batched_tokens
        for seq in self.running:
            want = seq.num_tokens - seq.num_computed_tokens
            if not seq.is_prefilling or min(want, budget) == 0:
                continue
            first = seq.num_computed_tokens == (seq.num_cached_tokens or 0)
            ids = tuple(block.block_id for block in seq.block_table) if first else ()
            code = Code.ADMIT_STATIC if first else Code.RUN_CHUNK
            num_tokens = min(want, budget)
            rows.append(self._make_row(seq, code, num_tokens, ids))
            if num_tokens < want:
                args = (want, num_tokens, budget)
                self.recorder.decision(Code.CUT_BUDGET, seq.request_id, *args)
            budget -= num_tokens
        return rows

    def _decode_rows(self) -> list[Row]:
        """One token for each member; the ended ones compute their last position again."""
        rows: list[Row] = []
        for seq in self.running:
            if not seq.is_finished:
                ids = self.kv.append(seq, 1)
                assert not isinstance(ids, Shortage), (
                    "the batch was formed with room for its longest"
                )
                rows.append(self._make_row(seq, Code.RUN_DECODE, 1, ids))
            elif seq.num_computed_tokens > 0:
                at = seq.num_computed_tokens - 1
                rows.append(Row(seq, Code.PAD_STATIC, at, 1, seq.num_tokens, 0, ()))
        return rows

    def _finish(self, seq: Sequence) -> None:
        """It ended, but its place and its blocks are held until the batch has."""
        seq.status = Status.FINISHED

    def _remove_finished(self) -> None:
        if all(seq.is_finished for seq in self.running):
            for seq in self.running:
                self.kv.free(seq)
            self.running = []

    def _longest(self, seq: Sequence) -> int:
        """Blocks for the prompt and all it may still produce."""
        room = seq.request.params.max_tokens or self.max_model_len
        longest = min(seq.num_prompt_tokens + room, self.max_model_len)
        return -(-longest // self.config.block_size)
