"""Prefill admission: four budgets, and a verdict per request.

    total     free + evictable tokens - what running requests may still produce - what this pass has booked,
              output included. A request must stay strictly below it
    current   the same without any output
    input     max_prefill_tokens
    chunk     chunked_prefill_size; a prompt that does not fit into what is left is cut there

A request is booked with a block more than it needs, because its last block may be partly empty. A cut prompt
books no output, ends the pass, and goes first in the next one. "Admitted" and "go on" are different things:
the verdict is about the next request.

Invariant: what is admitted finds room when it is allocated, for what a request would lock counts as taken.

Source: SGLang 0.5.23 `sglang/srt/managers/schedule_policy.py` (PrefillAdder),
`sglang/srt/mem_cache/prefill_budget.py` (a01-a18).
"""

from dataclasses import dataclass
from enum import Enum, auto

from engine.config_sglang import SglangConfig
from engine.kv.radix import RadixKV
from engine.kv.radix_tree import Match
from engine.sequence import Sequence
from tracing.record import Code


class Verdict(Enum):
    """Whether the next request is looked at."""

    CONTINUE = auto()
    NO_TOKEN = auto()
    """No memory: nobody is admitted until somebody leaves."""
    OTHER = auto()
    """Another limit, of this pass only."""


Reason = tuple[Code, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Admission:
    """A request's share of the prefill."""

    seq: Sequence
    num_tokens: int
    cut: Reason | None = None
    """Why it got fewer tokens than it wanted; its prompt goes on in the next pass."""
    given_up: int = 0
    """Cached tokens that are computed nevertheless, for logits."""


class PrefillAdder:
    """The budgets of one admission pass."""

    def __init__(
        self,
        kv: RadixKV,
        config: SglangConfig,
        running: list[Sequence],
        ratio: float,
        num_mixed: int,
        *,
        caching: bool,
    ) -> None:
        """num_mixed: decodes that join the step with one token each."""
        self.kv, self.config, self.running, self.ratio = kv, config, running, ratio
        self.caching = caching
        self.page_size = kv.block_size
        self.input_left = config.max_prefill_tokens - num_mixed
        self.chunk_left: int | None = None
        if config.chunked_prefill_size is not None:
            self.chunk_left = config.chunked_prefill_size - num_mixed
        self.total_offset: float = num_mixed
        self.current_offset: float = num_mixed
        self.total_offset += sum([self.reserve_of(seq) for seq in running])
        self.admitted: list[Admission] = []
        self.refusal: Reason = (Code.STOP_NO_TOKEN, ())
        """Why the last request was not admitted."""
        self._growth: list[tuple[float, int]] | None = None

    @property
    def total_left(self) -> float:
        """Tokens that are neither used nor booked."""
        return self.kv.num_room_tokens - self.total_offset

    @property
    def current_left(self) -> float:
        """The same without reserves for output."""
        return self.kv.num_room_tokens - self.current_offset

    def verdict(self) -> Verdict:
        """Is there anything left for another request?"""
        if self.total_left <= 0 or self.current_left <= 0:
            return Verdict.NO_TOKEN
        if self.input_left <= 0 or (self.chunk_left is not None and self.chunk_left <= 0):
            return Verdict.OTHER
        return Verdict.CONTINUE

    def reserve_of(self, seq: Sequence) -> float:
        """What is set aside for the output of a running request."""
        # A request of fixed length gains nothing from answers that end early.
        ratio = 1.0 if seq.request.params.ignore_eos else self.ratio
        left = max_new_tokens(seq) - seq.num_output_tokens
        return min(left, self.config.clip_max_new_tokens) * ratio

    # -- a prompt that was cut before --------------------------------------------------------------

    def continue_chunk(self, seq: Sequence, limit: int | None) -> bool:
        """The next chunk of the request whose prompt was cut; False if there is no room for any.

        It must go on even if everything is booked, or what it holds would never come free.
        """
        assert self.chunk_left is not None
        want, total = seq.num_tokens - seq.num_computed_tokens, int(self.total_left)
        if total <= 0:
            most, code, args = self.chunk_left, Code.CUT_FORCED, [total]
        elif total < self.chunk_left:
            most, code, args = total, Code.CUT_TOTAL, [total]
        else:
            most, code, args = (
                self.chunk_left,
                Code.CUT_CHUNK_PAGE,
                [self.chunk_left, self.page_size],
            )
        num_tokens = min(want, most, most if limit is None else limit)
        if self.kv.num_new_blocks(seq, num_tokens) > self.kv.num_free:
            return False
        cut = (code, (want, num_tokens, *args)) if num_tokens < want else None
        self._book(Admission(seq, num_tokens, cut))
        return True

    # -- a request from the queue --------------------------------------------------------------------

    def add(self, seq: Sequence, hit: Match) -> Verdict:
        """Admit the request if it fits; its prefix is then locked."""
        most = self.config.prefill_max_requests
        if most is not None and len(self.admitted) >= most:
            return self._refuse(Verdict.OTHER, Code.STOP_MAX_REQUESTS, len(self.admitted), most)
        if seq.request.params.ignore_eos and not self.caching:
            return self._add_simulated(seq, hit)
        extend = seq.num_tokens - hit.num_tokens
        left = max(max_new_tokens(seq) - seq.num_output_tokens, 0)
        reserve = min(left, self.config.clip_max_new_tokens)
        # Its own prefix is no room: it would be locked.
        total = self.kv.num_room_beside(hit) - self.total_offset
        if not extend + reserve + self.page_size < total:
            ratio = round(self.ratio * 1e6)
            need = (extend, reserve + self.page_size, int(total), ratio)
            return self._refuse(Verdict.NO_TOKEN, Code.STOP_NO_TOKEN, *need)
        if self.chunk_left is None:
            # The first one may be longer than the limit, or it would never run.
            if self.admitted and self._ceil(extend) >= self.input_left:
                return self._refuse(Verdict.OTHER, Code.STOP_INPUT, extend, self.input_left)
        elif self._ceil(extend) > self.chunk_left:
            return self._add_cut(seq, hit, extend)
        return self._admit(seq, hit, extend)

    def _add_cut(self, seq: Sequence, hit: Match, extend: int) -> Verdict:
        """As many whole pages as the chunk has left."""
        assert self.chunk_left is not None
        left, size = self.chunk_left, self.page_size
        end = (hit.num_tokens + left // size * size) // size * size
        num_tokens = end - hit.num_tokens
        # Only shortest-prefill-first leaves anything of the chunk to others after a cut.
        if num_tokens <= 0 or any(admission.cut for admission in self.admitted):
            return self._refuse(Verdict.OTHER, Code.STOP_CHUNK, left, size)
        return self._admit(seq, hit, num_tokens, (extend, num_tokens, left, size))

    def _add_simulated(self, seq: Sequence, hit: Match) -> Verdict:
        """Lengths are known and nothing is cached: admit if no moment of the future is short of memory."""
        extend = seq.num_tokens - hit.num_tokens
        paged = self._ceil(extend) + self.page_size
        if paged > min(self.current_left, self.total_left):
            return self._refuse(
                Verdict.NO_TOKEN, Code.STOP_SIMULATED, paged, int(self.current_left)
            )
        short = self._shortage_ahead(seq, paged)
        if short is not None:
            return self._refuse(Verdict.NO_TOKEN, Code.STOP_SIMULATED, *short)
        left = self.chunk_left
        if left is None or extend <= left:
            return self._admit(seq, hit, extend)
        # Upstream may cut a second prompt here, and then forgets the rest of the first.
        if left <= 0 or any(admission.cut for admission in self.admitted):
            return self._refuse(Verdict.OTHER, Code.STOP_CHUNK, left, self.page_size)
        return self._admit(seq, hit, left, (extend, left, left, self.page_size))

    def _shortage_ahead(self, seq: Sequence, paged: int) -> tuple[int, int] | None:
        """Let everybody grow until the shortest one ends and gives back what it holds, and so on.

        None if there is always more than one token left per request, else (needed, free) at that moment.
        """
        if self._growth is None:
            others = [*self.running, *(admission.seq for admission in self.admitted)]
            states = [state for other in (seq, *others) if (state := self._growth_of(other))]
            self._growth = sorted(states, key=lambda state: state[0])
        elif state := self._growth_of(seq):
            places = [i for i, other in enumerate(self._growth) if state[0] <= other[0]]
            # Who grows longest of all goes *before* the last one: so upstream has it.
            place = places[0] if places else max(len(self._growth) - 1, 0)
            self._growth.insert(place, state)
        free = self.current_left - paged
        for i, (tokens_left, tokens_held) in enumerate(self._growth):
            num = len(self._growth) - i
            if free - tokens_left * num <= num:
                return int(tokens_left * num), int(free)
            free += tokens_held
        return None

    def _growth_of(self, seq: Sequence) -> tuple[float, int] | None:
        """(tokens it will still produce, tokens it holds); None if it is about to end."""
        ratio = 1.0 if seq.request.params.ignore_eos else self.ratio
        left = max_new_tokens(seq) * ratio - seq.num_output_tokens
        return (left, seq.num_tokens) if left > 0 else None

    # -- booking ---------------------------------------------------------------------------------------

    def _admit(
        self, seq: Sequence, hit: Match, num_tokens: int, cut: tuple[int, ...] | None = None
    ) -> Verdict:
        given_up = self.kv.given_up(seq, hit)
        reason = None if cut is None else (Code.CUT_CHUNK_PAGE, cut)
        self.kv.admit(seq, hit)
        self._book(Admission(seq, num_tokens, reason, given_up))
        return self.verdict()

    def _book(self, admission: Admission) -> None:
        self.admitted.append(admission)
        output = 0
        if admission.cut is None:
            output = min(max_new_tokens(admission.seq), self.config.clip_max_new_tokens)
        paged = self._ceil(admission.num_tokens)
        self.total_offset += paged + self.page_size + output
        self.current_offset += paged + self.page_size
        self.input_left -= paged
        if self.chunk_left is not None:
            self.chunk_left -= paged

    def _refuse(self, verdict: Verdict, code: Code, *args: int) -> Verdict:
        self.refusal = code, args
        return verdict

    def _ceil(self, num_tokens: int) -> int:
        return -(-num_tokens // self.page_size) * self.page_size


def max_new_tokens(seq: Sequence) -> int:
    """How many tokens the request may produce in all; set on arrival."""
    assert seq.request.params.max_tokens is not None
    return seq.request.params.max_tokens
