"""One pass over the ordered queue: admit from its head until something says stop.

The idea: nobody overtakes. The first request that does not fit ends the pass, also for smaller ones behind
it; else a long prompt could wait for ever. Three things stop it: a spent budget, no free row, a refusal.

When memory is what was missing, admission stays shut (`is_full`) until somebody leaves the running batch.

Source: SGLang 0.5.23 `sglang/srt/managers/scheduler.py` (_get_new_batch_prefill_raw).
"""

from engine.kv.radix import RadixKV
from engine.scheduler.sglang_adder import PrefillAdder, Verdict, max_new_tokens
from engine.scheduler.sglang_queue import SglangQueue
from engine.scheduler.sglang_retract import Victim, choose_pushed_out, take_memory
from engine.sequence import Sequence
from tracing.record import Code, Recorder


class QueueWalk:
    """The pass, and what came of it besides the adder's admissions."""

    def __init__(
        self,
        kv: RadixKV,
        waiting: SglangQueue,
        adder: PrefillAdder,
        max_num_seqs: int,
        recorder: Recorder,
        *,
        is_full: bool,
    ) -> None:
        self.is_full = is_full
        """Whether nobody may be admitted: no row is free, or memory was missing and nobody has left since."""
        self.pushed_out: list[Victim] = []
        """In the order in which they ran."""
        self._kv, self._waiting, self._adder = kv, waiting, adder
        self._max_num_seqs = max_num_seqs
        self._recorder = recorder

    def run(self) -> None:
        """Admit up to the first request that stops the pass."""
        adder, queue = self._adder, list(self._waiting)
        for place, seq in enumerate(queue):
            if adder.verdict() is Verdict.OTHER:
                self._record_stop(seq)
                return
            if not self._has_row(seq):
                num = len(adder.running) + len(adder.admitted)
                self._recorder.decision(Code.STOP_ROWS, seq.request_id, num, self._max_num_seqs)
                return
            num_before = len(adder.admitted)
            verdict = self._try(seq)
            if verdict is Verdict.CONTINUE:
                continue
            if verdict is Verdict.NO_TOKEN:
                self.is_full = bool(adder.admitted or adder.running)
            if len(adder.admitted) == num_before:
                code, args = adder.refusal
                self._recorder.decision(code, seq.request_id, *args)
            elif place + 1 < len(queue):
                self._record_stop(queue[place + 1])
            return

    def _try(self, seq: Sequence) -> Verdict:
        hit, ticket = self._kv.lookup(seq), self._waiting.ticket(seq)
        ticket.num_seen_tokens, ticket.num_matched_tokens = seq.num_tokens, hit.num_tokens
        return self._adder.add(seq, hit)

    def _has_row(self, seq: Sequence) -> bool:
        """Is there a place in the running batch, or can one be made?"""
        if len(self._adder.admitted) >= self._max_num_seqs - len(self._adder.running):
            self.is_full = True
        return not self.is_full or self._push_out(seq)

    def _push_out(self, seq: Sequence) -> bool:
        """Take the memory of running requests that are far less important."""
        adder, config = self._adder, self._adder.config
        if not config.enable_priority_preemption:
            return False
        chosen = choose_pushed_out(seq, self._waiting, adder)
        for victim in [running for running in adder.running if running in chosen]:
            args = (victim.request.priority, config.priority_scheduling_preemption_threshold)
            self._recorder.decision(
                Code.PREEMPT_QUEUED, victim.request_id, *args, other=seq.request_id
            )
            adder.total_offset -= adder.reserve_of(victim)
            adder.running.remove(victim)
            self.pushed_out.append(take_memory(self._kv, victim, len(adder.running)))
        return bool(chosen)

    def _record_stop(self, seq: Sequence) -> None:
        """What ended the pass before this request was looked at."""
        adder = self._adder
        cut = next((a for a in adder.admitted if a.cut is not None), None)
        args: tuple[int, ...]
        if cut is not None:
            code, args = Code.STOP_AFTER_CUT, (cut.num_tokens,)
        elif adder.verdict() is Verdict.NO_TOKEN:
            numbers = (max_new_tokens(seq), int(adder.total_left), round(adder.ratio * 1e6))
            code, args = Code.STOP_NO_TOKEN, (seq.num_tokens, *numbers)
        elif adder.input_left <= 0:
            code, args = Code.STOP_INPUT, (seq.num_tokens, adder.input_left)
        else:
            code, args = Code.STOP_CHUNK, (adder.chunk_left or 0, adder.page_size)
        self._recorder.decision(code, seq.request_id, *args)
