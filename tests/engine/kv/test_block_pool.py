import pytest

from engine.kv.block_pool import BlockPool


def ids(blocks) -> list[int]:
    return [block.block_id for block in blocks]


def test_blocks_are_given_out_in_id_order_and_never_block_0():
    pool = BlockPool(5)
    assert ids(pool.take(4)) == [1, 2, 3, 4]
    assert (pool.num_free, pool.num_used) == (0, 4)


def test_blocks_without_an_entry_go_to_the_front_and_come_out_first():
    pool = BlockPool(6)
    taken = pool.take(3)
    shared, back, front = pool.release(reversed(taken))
    assert (shared, back, ids(front)) == ([], [], [3, 2, 1])
    assert ids(pool.free_queue) == [3, 2, 1, 4, 5]


def test_blocks_with_an_entry_go_to_the_back_and_are_counted():
    pool = BlockPool(6)
    taken = pool.take(3)
    for block in taken[:2]:
        block.hash = bytes([block.block_id])
    pool.release(reversed(taken))
    assert ids(pool.free_queue) == [3, 4, 5, 2, 1]
    assert pool.num_cached_free == 2


def test_a_hit_takes_a_block_out_of_the_middle_of_the_queue():
    pool = BlockPool(6)
    taken = pool.take(2)
    for block in taken:
        block.hash = bytes([block.block_id])
    pool.release(taken)
    pool.touch([taken[1]])
    assert ids(pool.free_queue) == [3, 4, 5, 1]
    pool.touch([taken[1]])
    assert taken[1].ref_count == 2
    shared, back, _ = pool.release([taken[1]])
    assert (shared, back) == ([taken[1]], [])
    assert pool.num_cached_free == 1


def test_freeing_twice_is_our_bug():
    pool = BlockPool(3)
    taken = pool.take(1)
    pool.release(taken)
    with pytest.raises(AssertionError, match="freed twice"):
        pool.release(taken)
