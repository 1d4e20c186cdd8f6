import pytest

from engine.kv.paged import Shortage
from engine.sequence import Sequence
from tests.engine.toys import request, run, toy_core
from tracing.record import Code


@pytest.fixture
def kv():
    return toy_core(cache="reserve", num_blocks=17, max_model_len=40).scheduler.kv


def admit(kv, request_id: int, prompt: int, max_tokens: int):
    seq = Sequence(request(request_id, list(range(prompt)), max_tokens), 0)
    return seq, kv.admit(seq, prompt, [], alone=False)


def test_room_for_the_longest_length_is_taken_at_once_and_contiguously(kv):
    seq, ids = admit(kv, 0, prompt=5, max_tokens=10)
    assert ids == (1, 2, 3, 4)
    assert [block.block_id for block in seq.block_table] == [1, 2, 3, 4]
    assert kv.append(seq, 1) == ()


def test_gaps_that_are_too_short_are_useless_however_many_there_are(kv):
    held = [admit(kv, i, 4, 12)[0] for i in range(4)]
    for seq in (held[0], held[2]):
        kv.free(seq)
    assert kv.num_free == 8
    _, short = admit(kv, 9, prompt=10, max_tokens=10)
    assert short == Shortage(Code.STOP_RESERVE, need=5, free=4)


def test_freed_runs_join_with_their_neighbours(kv):
    held = [admit(kv, i, 4, 12)[0] for i in range(4)]
    for seq in (held[1], held[3], held[2]):
        kv.free(seq)
    assert admit(kv, 9, prompt=20, max_tokens=20)[1] == tuple(range(5, 15))


def test_reserving_runs_fewer_requests_at_once_than_paging():
    most = {}
    for cache in ("reserve", "none"):
        core = toy_core(cache=cache, num_blocks=17)
        for i in range(8):
            core.add(request(i, [i + 1, 2, 3], 30))
        core.step()
        most[cache] = len(core.scheduler.running)
        run(core)
    assert most["reserve"] < most["none"]
