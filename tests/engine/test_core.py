import pytest

from engine.request import SamplingParams
from tests.engine.toys import check_conservation, expected_output, request, run, toy_core
from tracing.record import Code, Phase


def ends(core) -> dict[int, object]:
    """Step to the end; the End of each request."""
    found = {}
    while core.has_work:
        for output in core.step():
            if output.end is not None:
                found[output.request_id] = output.end
    return found


def test_tokens_come_one_step_at_a_time_and_the_end_with_the_last():
    core = toy_core()
    core.add(request(7, [1, 2, 3], 3))
    outputs = [output for _ in range(3) for output in core.step()]
    assert [len(output.token_ids) for output in outputs] == [1, 1, 1]
    assert [output.end is not None for output in outputs] == [False, False, True]
    assert [t for output in outputs for t in output.token_ids] == expected_output([1, 2, 3], 3)
    assert outputs[-1].end.code == Code.END_LENGTH
    assert not core.has_work


def test_an_aborted_request_ends_with_its_reason_and_frees_its_blocks():
    core = toy_core()
    core.add(request(1, list(range(10)), 50))
    core.add(request(2, list(range(10, 20)), 2))
    core.step()
    core.abort(1, Code.ABORT_DISCONNECT)
    core.abort(1, Code.ABORT_DISCONNECT)
    core.abort(99, Code.ABORT_CALL)
    found = ends(core)
    assert found[1].code == Code.ABORT_DISCONNECT
    assert found[2].code == Code.END_LENGTH
    assert core.scheduler.kv.num_used == 0


def test_a_request_aborted_while_it_waits_was_never_scheduled():
    core = toy_core(max_num_seqs=1)
    core.add(request(1, [1, 2], 5))
    core.add(request(2, [3, 4], 5))
    core.step()
    core.abort(2, Code.ABORT_CALL)
    end = ends(core)[2]
    assert (end.num_cached_tokens, end.last_step) == (None, -1)
    assert [phase for phase, _, _ in end.phases] == [Phase.TO_CORE, Phase.QUEUE]


def test_a_preempted_request_says_what_it_cost():
    core = toy_core(cache="none", num_blocks=9, max_model_len=32, max_num_seqs=2)
    core.add(request(1, list(range(12)), 15))
    core.add(request(2, list(range(20, 32)), 15))
    found = ends(core)
    assert found[1].num_preemptions == 0
    assert found[2].num_preemptions == 1
    assert found[2].num_recomputed_tokens > 12
    phases = [phase for phase, _, _ in found[2].phases]
    assert phases == [
        *(Phase.TO_CORE, Phase.QUEUE, Phase.PREFILL, Phase.DECODE),
        *(Phase.PREEMPTED, Phase.PREFILL, Phase.DECODE),
    ]


def test_phases_follow_each_other_in_time():
    core = toy_core(num_blocks=17)
    for i in range(6):
        core.add(request(i, list(range(i, i + 10)), 12))
    for end in ends(core).values():
        starts = [start for _, start, _ in end.phases]
        assert starts == sorted(starts)
        assert starts[-1] <= end.end_ns


def test_what_ends_a_sequence_is_checked_in_vllms_order():
    first, second = expected_output([1, 2, 3], 2)
    cases = [
        ({"max_tokens": 1}, first, Code.END_EOS),
        ({"max_tokens": 1, "ignore_eos": True}, first, Code.END_LENGTH),
        ({"max_tokens": 9, "stop_token_ids": (first,)}, None, Code.END_STOP_TOKEN),
        ({"max_tokens": 2, "min_tokens": 2, "stop_token_ids": (first,)}, None, Code.END_LENGTH),
        (
            {"max_tokens": 9, "min_tokens": 2, "stop_token_ids": (first, second)},
            None,
            Code.END_STOP_TOKEN,
        ),
        ({"max_tokens": None}, None, Code.END_MODEL_LEN),
    ]
    for fields, eos, code in cases:
        core = toy_core()
        params = SamplingParams(temperature=0, **fields)
        core.add(request(1, [1, 2, 3], params=params, eos_token_id=eos))
        assert ends(core)[1].code == code, fields


def test_closing_ends_what_is_open():
    core = toy_core()
    core.add(request(1, [1, 2, 3], 40))
    core.step()
    core.close()
    assert core.scheduler.kv.num_used == 0


def test_a_salt_keeps_prefixes_apart():
    hits = []
    for salt in ("a", "b", "a"):
        if not hits:
            core = toy_core()
        core.add(request(len(hits), list(range(16)), 1, cache_salt=salt))
        hits.append(ends(core)[len(hits)].num_cached_tokens)
    assert hits == [0, 0, 12]


def test_the_same_workload_runs_the_same_way_twice():
    def once() -> tuple[dict, int]:
        core = toy_core(num_blocks=17)
        for i in range(8):
            core.add(request(i, list(range(i, i + 9)), 10))
        return run(core), core.scheduler.num_steps

    assert once() == once()


@pytest.mark.parametrize(
    "settings",
    [{}, {"policy": "sglang", "block_size": 4}, {"policy": "sglang"}, {"cache": "reserve"}],
)
def test_a_reset_cache_forgets_every_prefix_but_not_while_requests_are_open(settings):
    core = toy_core(**settings)
    prompt = list(range(16))
    cached = [0 if settings.get("cache") == "reserve" else 12]
    if settings.get("policy") == "sglang":
        cached = [12] if core.scheduler.config.block_size == 4 else [15]
    hits = []
    for request_id in range(4):
        core.add(request(request_id, prompt, 1))
        assert core.reset_cache() is None
        hits.append(ends(core)[request_id].num_cached_tokens)
        if request_id == 1:
            num_blocks = core.reset_cache()
            assert (num_blocks or 0) * core.scheduler.config.block_size >= cached[0]
            assert core.scheduler.kv.num_cached_free == 0
    assert hits == [0, *cached, 0, *cached]
    check_conservation(core)


def test_stats_count_what_was_computed():
    core = toy_core(num_blocks=9, max_num_seqs=2)
    for request_id in range(3):
        core.add(request(request_id, list(range(request_id, request_id + 10)), 12))
    assert (core.stats.num_waiting, core.stats.num_running) == (3, 0)
    core.step()
    assert (core.stats.num_waiting, core.stats.num_running) == (1, 2)
    assert core.stats.num_prefill_tokens == 20
    assert core.stats.num_used_blocks == core.scheduler.kv.num_used > 0
    recomputed = sum(end.num_recomputed_tokens for end in ends(core).values())
    stats = core.stats
    assert (stats.num_waiting, stats.num_running, stats.num_used_blocks) == (0, 0, 0)
    assert stats.num_preemptions > 0
    computed = stats.num_prefill_tokens + stats.num_decode_tokens - recomputed
    assert computed == 3 * (10 + 12 - 1), "the last token of each is never computed"
    assert stats.num_steps == core.scheduler.num_steps
