"""One step's plan and its result: what the scheduler hands to the executor, and gets back. Immutable.

Source: vLLM 0.33 `vllm/v1/core/sched/output.py` (SchedulerOutput), `vllm/v1/outputs.py` (ModelRunnerOutput).
"""

from dataclasses import dataclass

from engine.sequence import Sequence
from tracing.record import Code


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence's share of a step."""

    seq: Sequence
    code: Code
    """How it came in: a code of kind row, 101-110."""
    num_computed_tokens: int
    """Before this step; of an admitted row exactly the prefix hit."""
    num_scheduled_tokens: int
    """Tokens of the sequence from num_computed_tokens on, drafts included."""
    num_tokens: int
    """Length of the sequence when it was scheduled."""
    num_recomputed_tokens: int
    """Of the scheduled ones, computed before and lost by a preemption."""
    new_block_ids: tuple[int, ...]
    """Appended to the block table in this step; of an admitted row the whole table."""
    draft_token_ids: tuple[int, ...] = ()

    @property
    def samples(self) -> bool:
        """True if this step reaches the end of the sequence, so that a token is sampled for it."""
        return self.num_computed_tokens + self.num_scheduled_tokens >= self.num_tokens

    @property
    def is_prefill(self) -> bool:
        """It computes prompt (or, resumed, lost output), more than the one newest token."""
        return self.code not in (Code.RUN_DECODE, Code.MIX_DECODE, Code.PAD_STATIC)


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one step in schedule order."""

    step: int
    start_ns: int
    rows: tuple[Row, ...]
    preempted: tuple[Sequence, ...] = ()
    token_budget: int = 0

    @property
    def num_tokens(self) -> int:
        """Tokens computed in this step, over all rows."""
        return sum(row.num_scheduled_tokens for row in self.rows)


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probabilities at one output position, of the raw distribution."""

    token_id: int
    logprob: float
    rank: int
    """1: the chosen token was the most likely one."""
    top: tuple[tuple[int, float], ...]
    """Most likely tokens, best first."""


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What came out of a step, row by row."""

    token_ids: tuple[tuple[int, ...], ...]
    """Sampled tokens per row: none for a row inside its prompt, one normally, more after accepted drafts."""
    logprobs: tuple[TokenLogprobs | None, ...] = ()
    """Per row; empty when no row asked."""
    num_padded_tokens: int = 0
    """Rows the kernels computed beyond the batch's own tokens."""
