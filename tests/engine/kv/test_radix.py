"""Pool and tree together: who owns which block, and in which order blocks come back."""

from engine.config import EngineConfig
from engine.kv.radix import RadixKV
from engine.sequence import Sequence
from tests.engine.toys import request
from tracing.record import NO_RECORDER


def make_kv(block_size: int = 1, num_blocks: int = 17, cache: str = "radix") -> RadixKV:
    config = EngineConfig(
        policy="sglang", cache=cache, block_size=block_size, num_blocks=num_blocks, max_model_len=64
    )
    return RadixKV(config, NO_RECORDER)


def prefill(kv: RadixKV, request_id: int, prompt: list[int], **fields: object) -> Sequence:
    """An admitted sequence whose prompt is computed, and not published yet."""
    seq = Sequence(request(request_id, prompt, **fields), 0)
    kv.admit(seq, kv.lookup(seq))
    kv.make_room(seq.num_tokens, None)
    kv.append(seq, seq.num_tokens - seq.num_computed_tokens)
    seq.num_computed_tokens = seq.num_tokens
    return seq


def finish(kv: RadixKV, seq: Sequence) -> None:
    kv.checkpoint(seq)
    kv.free(seq)


def table(seq: Sequence) -> list[int]:
    return [block.block_id for block in seq.block_table]


def free_queue(kv: RadixKV) -> list[int]:
    return [block.block_id for block in kv.pool.free_queue]


def sizes(kv: RadixKV) -> tuple[int, int, int]:
    return kv.num_used, kv.num_cached_free, kv.num_free - kv.num_cached_free


def test_two_who_compute_the_same_end_up_with_the_first_ones_blocks():
    kv = make_kv()
    first, second = prefill(kv, 1, [1, 2, 3]), prefill(kv, 2, [1, 2, 9])
    assert (table(first), table(second)) == ([1, 2, 3], [4, 5, 6])
    kv.checkpoint(first)
    kv.checkpoint(second)
    assert table(second) == [1, 2, 6]
    assert sizes(kv) == (4, 0, 12)
    kv.free(first)
    # The prefix is still locked by the second.
    assert sizes(kv) == (3, 1, 12)


def test_a_last_block_that_is_not_full_stays_private():
    kv = make_kv(block_size=4)
    seq = prefill(kv, 1, list(range(6)))
    kv.checkpoint(seq)
    assert (len(seq.block_table), seq.num_cached_blocks) == (2, 1)
    kv.free(seq)
    assert sizes(kv) == (0, 1, 15)


def test_the_whole_prompt_cached_gives_up_its_last_token_or_block():
    for block_size in (1, 4):
        kv = make_kv(block_size, num_blocks=33)
        finish(kv, prefill(kv, 1, list(range(8))))
        again = Sequence(request(2, list(range(8))), 0)
        hit = kv.lookup(again)
        assert (hit.num_tokens, kv.given_up(again, hit)) == (8 - block_size, block_size)
        longer = Sequence(request(3, [*range(8), 50]), 0)
        assert kv.given_up(longer, kv.lookup(longer)) == 0


def test_single_token_blocks_return_to_the_end_of_the_queue_and_larger_ones_to_its_front():
    kv = make_kv(num_blocks=7)
    kv.free(prefill(kv, 1, [1, 2, 3]))
    assert free_queue(kv) == [4, 5, 6, 1, 2, 3]
    kv = make_kv(block_size=4, num_blocks=7)
    kv.free(prefill(kv, 1, list(range(9))))
    assert free_queue(kv) == [1, 2, 3, 4, 5, 6]


def test_the_output_lies_below_the_prompt_and_can_be_evicted_alone():
    kv = make_kv()
    seq = prefill(kv, 1, [1, 2, 3])
    kv.checkpoint(seq)
    seq.token_ids += [50, 51]
    kv.append(seq, 1)
    seq.num_computed_tokens += 1
    finish(kv, seq)
    assert kv.make_room(13, None)
    hit = kv.match(seq, seq.num_tokens)
    assert (hit.num_tokens, hit.node.priority) == (3, 1)


def test_room_is_made_by_evicting_and_never_from_what_is_in_use():
    kv = make_kv(num_blocks=9)
    finish(kv, prefill(kv, 1, [1, 2, 3]))
    seq = prefill(kv, 2, [5, 6, 7])
    kv.checkpoint(seq)
    assert sizes(kv) == (3, 3, 2)
    assert kv.make_room(5, None)
    assert sizes(kv) == (3, 0, 5)
    assert not kv.make_room(6, None)


def test_what_a_request_would_lock_is_no_room_for_it():
    kv = make_kv(num_blocks=9)
    finish(kv, prefill(kv, 1, [1, 2, 3]))
    seq = Sequence(request(2, [1, 2, 9]), 0)
    assert (kv.num_room_tokens, kv.num_room_beside(kv.lookup(seq))) == (8, 6)


def test_a_salt_keeps_prompts_apart_and_an_empty_one_does_not():
    kv = make_kv(num_blocks=33)
    finish(kv, prefill(kv, 1, [1, 2, 3], cache_salt="a"))
    assert kv.lookup(Sequence(request(2, [1, 2, 3]), 0)).num_tokens == 0
    finish(kv, prefill(kv, 3, [1, 2, 3], cache_salt=""))
    assert kv.lookup(Sequence(request(4, [1, 2, 3]), 0)).num_tokens == 2
    unread = Sequence(request(5, [1, 2, 3], skip_reading_prefix_cache=True), 0)
    assert kv.lookup(unread).num_tokens == 0


def test_without_a_cache_nothing_is_shared_and_everything_returns():
    kv = make_kv(cache="none")
    finish(kv, prefill(kv, 1, [1, 2, 3]))
    assert sizes(kv) == (0, 0, 16)
    assert kv.lookup(Sequence(request(2, [1, 2, 3]), 0)).num_tokens == 0


def test_a_reset_forgets_every_prefix():
    kv = make_kv()
    finish(kv, prefill(kv, 1, [1, 2, 3]))
    assert kv.reset_cache() == 3
    assert sizes(kv) == (0, 0, 16)
    assert kv.match(Sequence(request(2, [1, 2, 3]), 0), 3).num_tokens == 0
