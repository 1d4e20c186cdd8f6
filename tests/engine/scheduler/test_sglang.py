"""Each rule of the sglang policy in a small case, and what must hold under all of its settings."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config import EngineConfig
from engine.config_sglang import SglangConfig
from engine.core import EngineCore
from engine.errors import ConfigError
from engine.request import SamplingParams
from engine.scheduler.sglang import SglangScheduler
from tests.engine.recorded import MemorySink, parse_records
from tests.engine.toys import (
    check_conservation,
    collect,
    expected_output,
    request,
    run,
    toy_core,
)
from tracing.record import Code, Kind, Recorder

ROOM = {"num_blocks": 257, "block_size": 1}


def make_core(recorder: Recorder | None = None, **fields: object) -> EngineCore:
    """Fields that EngineConfig does not know go to SglangConfig."""
    engine = {k: v for k, v in fields.items() if k in EngineConfig.__dataclass_fields__}
    sglang = {k: v for k, v in fields.items() if k not in engine}
    config = {"policy": "sglang", "sglang": SglangConfig(**sglang)}  # type: ignore[arg-type]
    args = () if recorder is None else (recorder,)
    return toy_core(*args, **(ROOM | config | engine))


def scheduler(core: EngineCore) -> SglangScheduler:
    assert isinstance(core.scheduler, SglangScheduler)
    return core.scheduler


def step(core: EngineCore) -> list[tuple[int, Code, int]]:
    """Rows of the next step as (request, code, tokens)."""
    rows: list[tuple[int, Code, int]] = []
    submit = core.executor.submit

    def watch(batch):
        rows.extend((r.seq.request_id, r.code, r.num_scheduled_tokens) for r in batch.rows)
        submit(batch)

    core.executor.submit = watch
    core.step()
    core.executor.submit = submit
    check_conservation(core)
    return rows


def prompt(request_id: int, length: int) -> list[int]:
    return [100 * request_id + i for i in range(length)]


# -- prefill first -----------------------------------------------------------------------------------


def test_a_prefill_lets_the_running_ones_stand_still():
    core = make_core()
    core.add(request(1, prompt(1, 5)))
    assert step(core) == [(1, Code.ADMIT_NEW, 5)]
    assert step(core) == [(1, Code.RUN_DECODE, 1)]
    core.add(request(2, prompt(2, 7)))
    assert step(core) == [(2, Code.ADMIT_NEW, 7)]
    assert step(core) == [(1, Code.RUN_DECODE, 1), (2, Code.RUN_DECODE, 1)]


def test_a_cut_prompt_ends_the_pass_samples_nothing_and_goes_first_next_time():
    core = make_core(chunked_prefill_size=8)
    core.add(request(1, prompt(1, 5)))
    core.add(request(2, prompt(2, 9)))
    core.add(request(3, prompt(3, 2)))
    assert step(core) == [(1, Code.ADMIT_NEW, 5), (2, Code.ADMIT_CUT, 3)]
    assert scheduler(core).chunked is core.sequences[2]
    assert core.sequences[2].num_output_tokens == 0
    assert step(core) == [(2, Code.RUN_CHUNK, 6), (3, Code.ADMIT_NEW, 2)]
    assert scheduler(core).chunked is None
    assert step(core) == [(1, Code.RUN_DECODE, 1), (2, Code.RUN_DECODE, 1), (3, Code.RUN_DECODE, 1)]


def test_a_chunk_ends_at_a_whole_block():
    core = make_core(chunked_prefill_size=10, block_size=4, num_blocks=65)
    core.add(request(1, prompt(1, 5)))
    core.add(request(2, prompt(2, 30)))
    # 5 tokens cost two blocks of the chunk; of the 2 tokens left no block can be made.
    assert step(core) == [(1, Code.ADMIT_NEW, 5)]
    assert step(core) == [(2, Code.ADMIT_CUT, 8)]


def test_mixed_chunks_take_the_running_ones_along_at_one_token_each():
    core = make_core(chunked_prefill_size=8, enable_mixed_chunk=True)
    core.add(request(1, prompt(1, 5), 8))
    step(core)
    core.add(request(2, prompt(2, 12), 8))
    assert step(core) == [(2, Code.ADMIT_CUT, 7), (1, Code.MIX_DECODE, 1)]
    assert step(core) == [(2, Code.RUN_CHUNK, 5), (1, Code.MIX_DECODE, 1)]
    # Who was prefilled stands before those that came along.
    assert step(core) == [(2, Code.RUN_DECODE, 1), (1, Code.RUN_DECODE, 1)]


def test_whoever_wants_logprobs_is_not_mixed():
    core = make_core(chunked_prefill_size=8, enable_mixed_chunk=True)
    core.add(request(1, prompt(1, 5), params=SamplingParams(temperature=0, logprobs=1)))
    step(core)
    core.add(request(2, prompt(2, 4)))
    assert step(core) == [(2, Code.ADMIT_NEW, 4)]


# -- admission -----------------------------------------------------------------------------------------


def test_a_request_must_stay_strictly_below_what_is_left():
    # 10 tokens of prompt, 5 of output and one spare block: 16 are not enough, 17 are.
    for num_tokens, admitted in ((16, []), (17, [(1, Code.ADMIT_NEW, 10)])):
        core = make_core(num_blocks=num_tokens + 1, max_model_len=60)
        core.add(request(1, prompt(1, 10), 5))
        # Output that would not fit into an empty pool is clipped; undo that to see the limit.
        core.sequences[1].request = request(1, prompt(1, 10), 5)
        assert step(core) == admitted


def test_nobody_overtakes_a_request_that_does_not_fit():
    core = make_core(num_blocks=65, max_model_len=60)
    core.add(request(1, prompt(1, 30), 20))
    step(core)
    core.add(request(2, prompt(2, 25), 20))
    core.add(request(3, prompt(3, 2), 2))
    assert step(core) == [(1, Code.RUN_DECODE, 1)]
    assert [seq.request_id for seq in scheduler(core).waiting] == [2, 3]


def test_admission_stays_shut_until_somebody_leaves():
    core = make_core(num_blocks=65, max_model_len=60)
    core.add(request(1, prompt(1, 30), 3))
    core.add(request(2, prompt(2, 30), 20))
    step(core)
    assert scheduler(core).is_full
    assert [step(core)[0][0] for _ in range(2)] == [1, 1]
    assert step(core) == [(2, Code.ADMIT_NEW, 30)]


def test_running_requests_reserve_a_share_of_their_output_which_sinks_step_by_step():
    core = make_core()
    assert core.scheduler.new_token_ratio == pytest.approx(0.7)
    core.add(request(1, prompt(1, 5), 40))
    for _ in range(11):
        step(core)
    assert core.scheduler.new_token_ratio == pytest.approx(0.7 - 10 * (0.7 - 0.098) / 600)
    run(core)
    core.step()
    # An idle turn of the loop sets it back.
    assert core.scheduler.new_token_ratio == pytest.approx(0.7)


def test_no_more_requests_than_rows():
    core = make_core(max_num_seqs=2)
    for i in (1, 2, 3):
        core.add(request(i, prompt(i, 3), 2))
    assert [row[0] for row in step(core)] == [1, 2]
    assert [row[0] for row in step(core)] == [1, 2]
    assert [row[0] for row in step(core)] == [3]


def test_output_that_an_empty_pool_could_not_hold_is_clipped_on_arrival():
    core = make_core(num_blocks=25, max_model_len=60)
    core.add(request(1, prompt(1, 8), 40))
    assert run(core) == {1: expected_output(prompt(1, 8), 24 - 8 - 1 - 1)}


# -- who loses its memory --------------------------------------------------------------------------------


def test_retraction_takes_who_has_generated_least_and_queues_it_at_the_tail():
    core = make_core(num_blocks=62, max_model_len=60, schedule_conservativeness=0.1)
    core.add(request(1, prompt(1, 10), 30))
    step(core)
    step(core)
    core.add(request(2, prompt(2, 10), 12))
    core.add(request(3, prompt(3, 10), 12))
    first, second, third = (core.sequences[i] for i in (1, 2, 3))
    while not second.num_preemptions + third.num_preemptions:
        rows = step(core)
    # 2 and 3 have generated equally much and are equally long: the last in order goes.
    assert [row[0] for row in rows] == [1, 2]
    assert list(scheduler(core).waiting) == [third]
    assert first.num_preemptions == 0
    assert core.scheduler.new_token_ratio > 0.5
    assert run(core)[3][-1:] == expected_output(prompt(3, 10), 12)[-1:]


def test_a_far_more_important_arrival_pushes_a_running_request_out():
    core = make_core(max_num_seqs=2, enable_priority_scheduling=True)
    core.add(request(1, prompt(1, 5), 9))
    core.add(request(2, prompt(2, 5), 9))
    step(core)
    core.add(request(3, prompt(3, 5), 2, priority=10))
    assert step(core)[0][1] == Code.RUN_DECODE  # ten more is not enough
    core.add(request(4, prompt(4, 5), 2, priority=11))
    assert step(core) == [(4, Code.ADMIT_NEW, 5)]
    assert [seq.request_id for seq in scheduler(core).waiting] == [3, 2]
    outputs = run(core)
    assert outputs[2][-2:] == expected_output(prompt(2, 5), 9)[-2:]


def test_a_cut_prompt_that_finds_no_room_any_more_is_retracted_and_comes_back():
    core = make_core(
        num_blocks=151,
        max_model_len=140,
        schedule_conservativeness=0.01,
        chunked_prefill_size=4,
        enable_mixed_chunk=True,
    )
    core.add(request(1, prompt(1, 2), 100))
    core.add(request(2, prompt(2, 2), 100))
    for _ in range(3):
        core.step()
    core.add(request(3, prompt(3, 100), 2))
    long = core.sequences[3]
    assert run(core)[3] == expected_output(prompt(3, 100), 2)
    assert long.num_preemptions == 1


# -- the queue's order ---------------------------------------------------------------------------------


def test_longest_prefix_goes_first():
    core = make_core(schedule_policy="lpm", max_num_seqs=1)
    core.add(request(1, prompt(1, 20), 2))
    run(core)
    for i, num_shared in ((2, 5), (3, 15), (4, 0)):
        core.add(request(i, prompt(1, num_shared) + prompt(i, 3), 2))
    assert [step(core)[0] for _ in range(6)][::2] == [
        (3, Code.ADMIT_NEW, 3),
        (2, Code.ADMIT_NEW, 3),
        (4, Code.ADMIT_NEW, 3),
    ]


def test_of_those_that_begin_alike_only_the_first_keeps_its_place():
    core = make_core(schedule_policy="lpm", max_num_seqs=2)
    for i in (1, 2):
        core.add(request(i, [*prompt(9, 32), i], 3))
    core.add(request(3, prompt(3, 6), 3))
    assert [row[0] for row in step(core)] == [1, 3]
    while 3 in core.sequences:
        step(core)
    # The one that was set back now finds what the first has computed.
    assert step(core) == [(2, Code.ADMIT_NEW, 1)]


@pytest.mark.parametrize(
    ("policy", "order"),
    [("fcfs", [1, 2, 3]), ("lof", [2, 3, 1]), ("shortest-prefill-first", [3, 1, 2])],
)
def test_policies_that_look_at_lengths(policy, order):
    core = make_core(schedule_policy=policy)
    for i, length, max_tokens in ((1, 6, 2), (2, 9, 9), (3, 4, 5)):
        core.add(request(i, prompt(i, length), max_tokens))
    assert [row[0] for row in step(core)] == order


def test_waiting_ages_by_prefills_and_while_decoding_by_the_prefill_that_began_the_batch():
    core = make_core(schedule_policy="hrrn", max_num_seqs=1)
    core.add(request(1, prompt(1, 10), 4))
    step(core)
    clock = scheduler(core).waiting
    assert clock.clock_tokens == 10
    # 12 tokens of work wait since 10; 4 since 20 and then since 30.
    core.add(request(2, prompt(2, 12), 2))
    step(core)
    core.add(request(3, prompt(3, 4), 2))
    assert [step(core)[0][0] for _ in range(2)] == [1, 1]
    assert clock.clock_tokens == 40
    assert step(core)[0][0] == 3  # 20 / 4 is more than 30 / 12
    assert clock.clock_tokens == 44


def test_requests_of_the_routing_key_that_runs_most_go_first():
    core = make_core(schedule_policy="routing-key")
    core.add(request(1, prompt(1, 3), 9, routing_key="b"))
    step(core)
    for i, key in ((2, None), (3, "a"), (4, "b")):
        core.add(request(i, prompt(i, 3), 9, routing_key=key))
    assert [row[0] for row in step(core)] == [4, 2, 3]


# -- aborts and ends -------------------------------------------------------------------------------------


def test_who_decodes_leaves_its_work_to_the_cache_and_who_is_cut_does_not():
    core = make_core(chunked_prefill_size=8)
    core.add(request(1, prompt(1, 5), 9))
    for _ in range(4):
        step(core)
    core.add(request(2, prompt(2, 20), 9))
    step(core)
    core.abort(1, Code.ABORT_CALL)
    core.abort(2, Code.ABORT_CALL)
    core.step()
    assert core.scheduler.kv.num_used == 0
    assert core.scheduler.kv.num_cached_free == 5 + 3
    assert not scheduler(core).waiting.tickets
    assert scheduler(core).chunked is None


# -- the trace -----------------------------------------------------------------------------------------


def test_the_trace_says_why():
    sink = MemorySink()
    recorder = Recorder(sink)
    core = make_core(
        recorder,
        num_blocks=81,
        max_model_len=60,
        chunked_prefill_size=16,
        schedule_policy="lpm",
        schedule_conservativeness=0.1,
    )
    for i in range(6):
        core.add(request(i, [*prompt(9, 18), *prompt(i, 4)], 30))
    run(core)
    for i in (6, 7):
        core.add(request(i, prompt(0, 3), 2))
        run(core)
    decisions = parse_records(sink.data, Kind.DECISION)
    codes = {row["code"] for row in decisions}
    assert codes >= {
        *(Code.CUT_CHUNK_PAGE, Code.STOP_AFTER_CUT, Code.STOP_NO_TOKEN, Code.STOP_FULL_FLAG),
        *(Code.RETRACT_SHORTEST, Code.RATIO_SET, Code.ORDER_KEY, Code.SKIP_PREFILL_FIRST),
        *(Code.HIT_NONE, Code.HIT_PART, Code.HIT_FULL_TOKEN, Code.HIT_OWN),
    }
    rows = parse_records(sink.data, Kind.ROW)
    admitted = {Code.ADMIT_NEW, Code.ADMIT_CUT, Code.ADMIT_RESUMED}
    lookups = [row for row in decisions if 701 <= row["code"] <= 706]
    assert len(lookups) == sum(row["code"] in admitted for row in rows)
    ratios = [row["new_token_ratio_1e6"] for row in parse_records(sink.data, Kind.STEP)]
    assert all(0 < ratio <= 10**6 for ratio in ratios)
    # At most one stop a step: never more of them than steps.
    assert sum(400 < row["code"] < 430 for row in decisions) <= len(ratios)


# -- settings ------------------------------------------------------------------------------------------


def test_settings_that_cannot_work_are_refused():
    with pytest.raises(ConfigError, match="sglang needs radix or none"):
        EngineConfig(policy="sglang", cache="hash")
    with pytest.raises(ConfigError, match="cannot run on cache radix"):
        EngineConfig(policy="vllm", cache="radix")
    short = EngineConfig(
        policy="sglang", block_size=16, sglang=SglangConfig(chunked_prefill_size=8)
    )
    with pytest.raises(ConfigError, match="at least block_size"):
        short.resolve(num_blocks=17, max_model_len=64)
    with pytest.raises(ConfigError, match="needs a chunked_prefill_size"):
        SglangConfig(enable_mixed_chunk=True, chunked_prefill_size=None)
    with pytest.raises(ConfigError, match="must be at least 1"):
        SglangConfig(chunked_prefill_size=0)
    with pytest.raises(ConfigError, match="above 0"):
        SglangConfig(schedule_conservativeness=0)
    with pytest.raises(ConfigError, match="needs the radix cache"):
        make_core(cache="none", schedule_policy="shortest-prefill-first")


def test_the_preset_brings_its_cache_and_block_size_and_needs_room_to_spare():
    config = EngineConfig(policy="sglang")
    assert (config.cache, config.block_size) == ("radix", 1)
    assert (EngineConfig().cache, EngineConfig().block_size) == ("hash", 16)
    with pytest.raises(ConfigError, match="give more KV memory"):
        config.resolve(num_blocks=67, max_model_len=64)
    assert config.resolve(num_blocks=68, max_model_len=64).max_model_len == 64


SGLANG = st.fixed_dictionaries(
    {
        "schedule_policy": st.sampled_from(
            ["fcfs", "lpm", "dfs-weight", "lof", "random", "hrrn", "routing-key"]
        ),
        "schedule_conservativeness": st.sampled_from([0.05, 0.4, 1.0]),
        "chunked_prefill_size": st.sampled_from([16, 24]),
        "enable_mixed_chunk": st.booleans(),
        "max_prefill_tokens": st.sampled_from([30, 16384]),
        "prefill_max_requests": st.sampled_from([None, 2]),
        "radix_eviction_policy": st.sampled_from(["lru", "lfu", "tlru", "mru", "priority"]),
        "retraction_policy": st.sampled_from(["length", "priority"]),
        "enable_priority_scheduling": st.booleans(),
        "schedule_low_priority_values_first": st.booleans(),
    }
)


@settings(max_examples=120, deadline=None)
@given(
    SGLANG,
    st.sampled_from(["radix", "radix", "none"]),
    st.sampled_from([1, 4, 16]),
    st.integers(0, 10**6),
)
def test_every_request_ends_once_with_the_tokens_it_would_have_alone(
    sglang, cache, block_size, seed
):
    rng = random.Random(seed)
    # Just enough for one request of the model's length: retraction is the normal case.
    num_blocks = -(-(60 + 2 * block_size + 1) // block_size) + 1
    core = make_core(
        cache=cache,
        block_size=block_size,
        num_blocks=num_blocks,
        max_model_len=60,
        max_num_seqs=rng.choice([2, 6]),
        **sglang,
    )
    core.scheduler.config.resolve(num_blocks=num_blocks, max_model_len=60)
    stem = [rng.randrange(50) for _ in range(20)]
    outputs: dict[int, list[int]] = {}
    ended: list[int] = []
    wanted: dict[int, list[int]] = {}
    for _ in range(3000):
        if len(wanted) < 12 and rng.random() < 0.4:
            i = len(wanted)
            text = stem[: rng.randrange(21)] + [
                rng.randrange(50) for _ in range(rng.randrange(1, 20))
            ]
            params = SamplingParams(
                temperature=0,
                max_tokens=rng.randrange(1, 61 - len(text)),
                ignore_eos=rng.random() < 0.3,
            )
            wanted[i] = expected_output(text, params.max_tokens)
            fields = {
                "priority": rng.choice([0, 1, 50]),
                "routing_key": rng.choice([None, "a", "b"]),
            }
            core.add(request(i, text, params=params, **fields))
        elif core.sequences and rng.random() < 0.03:
            gone = rng.choice(list(core.sequences))
            core.abort(gone, Code.ABORT_CALL)
            wanted[gone] = wanted[gone][: len(outputs.get(gone, []))]
        for output in core.step():
            collect(output, outputs, ended)
        check_conservation(core)
        if len(wanted) == 12 and not core.has_work:
            break
    assert sorted(ended) == list(range(12))
    assert {i: outputs.get(i, []) for i in wanted} == wanted
    kv = scheduler(core).kv
    assert (kv.num_used, kv.cache.num_protected) == (0, 0)
