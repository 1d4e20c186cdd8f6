"""Rules of the vllm policy that are easy to get wrong; those of speculation without a drafter."""

from engine.batch import Batch, StepOutput
from engine.config import EngineConfig
from engine.kv.paged import PagedKV
from engine.scheduler.vllm import VllmScheduler
from tests.engine.toys import expected_output, request, run, toy_core
from tracing.record import NO_RECORDER, Code

PREFIX = list(range(8))
Rows = list[tuple[int, Code, int, tuple[int, ...]]]


def make_scheduler(**changes: object) -> VllmScheduler:
    settings: dict[str, object] = {
        "block_size": 4,
        "num_blocks": 33,
        "max_model_len": 64,
        "max_num_batched_tokens": 16,
        "max_num_seqs": 4,
        "num_speculative_tokens": 2,
    }
    config = EngineConfig(**(settings | changes))  # type: ignore[arg-type]  # kwargs of a test
    return VllmScheduler(config, PagedKV(config, NO_RECORDER), NO_RECORDER)


def step(scheduler: VllmScheduler) -> Rows:
    """Rows of the next step as (request, code, tokens, drafts); every row that samples gets token 7."""
    batch = scheduler.schedule()
    assert isinstance(batch, Batch)
    tokens = tuple((7,) if row.samples else () for row in batch.rows)
    scheduler.update(batch, StepOutput(tokens), 0)
    return [
        (row.seq.request_id, row.code, row.num_scheduled_tokens, row.draft_token_ids)
        for row in batch.rows
    ]


def cache_prefix(scheduler: VllmScheduler) -> None:
    """Two blocks of PREFIX, of a request that has ended."""
    scheduler.add(request(0, [*PREFIX, 9], 1))
    step(scheduler)


def test_a_newcomer_with_one_token_left_is_padded_also_behind_a_prompt_of_the_same_step():
    scheduler = make_scheduler()
    cache_prefix(scheduler)
    scheduler.add(request(1, [20, 21, 22]))
    scheduler.add(request(2, [*PREFIX, 9]))
    assert step(scheduler) == [
        (1, Code.ADMIT_NEW, 3, ()),
        (2, Code.SPEC_PAD, 3, (-1, -1)),
    ]


def test_it_rather_waits_than_comes_without_its_padding():
    scheduler = make_scheduler(max_num_batched_tokens=9)
    cache_prefix(scheduler)
    scheduler.add(request(1, [20, 21, 22, 23, 24, 25, 26]))
    scheduler.add(request(2, [*PREFIX, 9]))
    assert step(scheduler) == [(1, Code.ADMIT_NEW, 7, ())]
    assert [seq.request_id for seq in scheduler.waiting] == [2]
    assert step(scheduler)[1] == (2, Code.SPEC_PAD, 3, (-1, -1))


def test_it_is_not_padded_beyond_what_the_model_can_hold():
    for max_model_len, drafts in ((12, (-1, -1)), (11, ())):
        scheduler = make_scheduler(max_model_len=max_model_len)
        cache_prefix(scheduler)
        scheduler.add(request(1, [*PREFIX, 9], 1))
        assert step(scheduler)[0][3] == drafts


def test_a_resumed_sequence_computes_a_chunk_until_it_samples_and_nobody_is_padded_beside_it():
    scheduler = make_scheduler(
        num_blocks=5, max_model_len=16, max_num_batched_tokens=7, cache="none"
    )
    first = scheduler.add(request(1, [1, 2, 3, 4], 12))
    second = scheduler.add(request(2, [1, 2, 3], 12))
    while not second.num_preemptions:
        step(scheduler)
    assert second.num_tokens == 8
    scheduler.abort(first)
    assert step(scheduler) == [(2, Code.ADMIT_RESUMED, 7, ())]
    third = scheduler.add(request(3, [8]))
    # One token is left of what was lost; it looks like a decode and is none.
    assert step(scheduler) == [(2, Code.RUN_CHUNK, 1, ()), (3, Code.ADMIT_NEW, 1, ())]
    scheduler.abort(third)
    scheduler.add(request(4, [8]))
    assert step(scheduler)[1] == (4, Code.SPEC_PAD, 3, (-1, -1))


def test_nobody_finds_blocks_of_a_row_that_was_taken_out_again_for_somebody_more_urgent():
    core = toy_core(
        block_size=2,
        num_blocks=11,
        max_model_len=20,
        max_num_batched_tokens=6,
        max_num_seqs=3,
        long_prefill_token_threshold=3,
        scheduler_reserve_full_isl=False,
        scheduling_policy="priority",
    )
    core.add(request(0, list(range(16)), 1, priority=5))
    core.step()
    core.add(request(1, [40, 41, 42], 4, priority=0))
    victim = core.sequences[0]
    # The toy model notices if the resumed one relies on what the withdrawn row would have computed.
    assert run(core)[0] == expected_output(list(range(16)), 1)
    assert victim.num_preemptions == 1
