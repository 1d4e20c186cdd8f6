"""What the core writes about a step, once its output is in hand: rows, tokens, and the step itself.

Decisions and block events are written where they are made; this file adds what is only known at the end of
the step. One call, integers only.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.batch import Batch, StepOutput
from engine.kv.hashing import BlockHasher
from engine.sequence import Sequence
from tracing.record import NULL, Code, Level, Mode, Recorder

if TYPE_CHECKING:  # these import this module's callers
    from engine.scheduler.base import Finish, Scheduler

ADMITTED = {
    *(Code.ADMIT_NEW, Code.ADMIT_RESUMED, Code.ADMIT_CUT, Code.ADMIT_STATIC),
    Code.SPEC_PAD,
}


@dataclass(slots=True)
class StepTimes:
    """When the parts of a step happened (monotonic ns); filled as it goes."""

    scheduled_ns: int
    in_flight: int
    """Steps submitted and not collected when this one was planned."""
    submitted_ns: int = 0
    collected_ns: int = 0


def record_step(
    recorder: Recorder,
    scheduler: "Scheduler",
    batch: Batch,
    output: StepOutput,
    finishes: "list[Finish]",
    times: StepTimes,
    end_ns: int,
) -> None:
    """Write the step's rows, its sampled tokens and its own record, and hand the block to the sink."""
    if recorder.level < Level.METRICS:
        return
    if recorder.level >= Level.STEPS:
        recorder.begin_step(
            batch.step, batch.start_ns
        )  # names the step again if another is in flight
        _record_rows(recorder, batch, output)
    _record_tokens(recorder, batch, output, times.collected_ns)
    kv, config, ratio = scheduler.kv, scheduler.config, scheduler.new_token_ratio
    num_prefill = sum(row.num_scheduled_tokens for row in batch.rows if row.is_prefill)
    recorder.end_step(
        start_ns=batch.start_ns,
        scheduled_ns=times.scheduled_ns,
        submitted_ns=times.submitted_ns,
        collected_ns=times.collected_ns,
        end_ns=end_ns,
        mode=_mode(batch, num_prefill),
        num_rows=len(batch.rows),
        num_tokens=batch.num_tokens,
        num_prefill_tokens=num_prefill,
        num_draft_tokens=sum(len(row.draft_token_ids) for row in batch.rows),
        num_padded_tokens=output.num_padded_tokens,
        token_budget=batch.token_budget,
        max_num_seqs=config.max_num_seqs,
        num_running=len(scheduler.running),
        num_waiting=len(scheduler.waiting),
        used_blocks=kv.num_used,
        cached_free_blocks=kv.num_cached_free,
        free_blocks=kv.num_free - kv.num_cached_free,
        num_preempted=len(batch.preempted),
        num_finished=len(finishes),
        new_token_ratio_1e6=NULL if ratio is None else round(ratio * 1e6),
        in_flight=times.in_flight,
    )


def record_prompt_units(recorder: Recorder, seq: Sequence, block_size: int) -> None:
    """Write the prompt's block hashes at arrival, so that a query can say later why a block missed.

    Each comes twice: with the salt, as the cache knows it, and without, so that "the same text under another
    salt" can be told without knowing the text.
    """
    if recorder.level < Level.BLOCKS or not seq.block_hashes:
        return
    content = seq.block_hashes
    if seq.request.cache_salt:
        content = []
        BlockHasher(block_size).extend(content, seq.token_ids, None)
    units = list(zip(seq.block_hashes, content, strict=True))
    recorder.prompt_units(seq.request_id, seq.num_prompt_tokens, units)


def _record_rows(recorder: Recorder, batch: Batch, output: StepOutput) -> None:
    for row, token_ids in zip(batch.rows, output.token_ids, strict=True):
        hit = row.num_computed_tokens if row.code in ADMITTED else 0
        num_sampled = len(token_ids)
        kept = max(0, row.seq.num_tokens - row.num_tokens)
        recorder.row(
            (
                row.seq.request_id,
                row.code,
                row.num_scheduled_tokens,
                row.num_computed_tokens,
                row.num_tokens,
                row.is_prefill,
                hit,
                row.num_recomputed_tokens,
                len(row.draft_token_ids),
                max(0, num_sampled - 1) if row.draft_token_ids else 0,
                min(kept, num_sampled),
                kept < num_sampled,
            )
        )


def _record_tokens(recorder: Recorder, batch: Batch, output: StepOutput, ts_ns: int) -> None:
    sampled = []
    for row, token_ids in zip(batch.rows, output.token_ids, strict=True):
        seq = row.seq
        kept = seq.num_tokens - row.num_tokens
        first = row.num_tokens - seq.num_prompt_tokens
        sampled += [(seq.request_id, first + j, t) for j, t in enumerate(token_ids[:kept])]
    recorder.tokens(ts_ns, sampled)


def _mode(batch: Batch, num_prefill_tokens: int) -> Mode:
    if not batch.rows:
        return Mode.EMPTY
    if num_prefill_tokens == 0:
        return Mode.DECODE
    return Mode.PREFILL if num_prefill_tokens == batch.num_tokens else Mode.MIXED
