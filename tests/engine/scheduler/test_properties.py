"""Random workloads, random aborts, tiny pools: what must hold whatever happens."""

import random
from collections.abc import Iterator
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config_sglang import SglangConfig
from tests.engine.toys import (
    check_conservation,
    collect,
    expected_output,
    request,
    run,
    toy_core,
)
from tracing.record import Code

SETTINGS = st.fixed_dictionaries(
    {
        "policy": st.sampled_from(["vllm", "static"]),
        "cache": st.sampled_from(["hash", "none", "reserve"]),
        "block_size": st.sampled_from([1, 2, 4, 16]),
        "max_num_batched_tokens": st.sampled_from([4, 7, 32, 64]),
        "max_num_seqs": st.sampled_from([1, 3, 4]),
        "long_prefill_token_threshold": st.sampled_from([0, 3]),
        "watermark": st.sampled_from([0.0, 0.2]),
        "scheduler_reserve_full_isl": st.booleans(),
        "scheduling_policy": st.sampled_from(["fcfs", "priority"]),
    }
)

SGLANG: dict[str, object] = {
    "policy": "sglang",
    "sglang": SglangConfig(chunked_prefill_size=16, clip_max_new_tokens=1),
}


def workload(rng: random.Random, n: int) -> list[dict]:
    stem = [rng.randrange(50) for _ in range(20)]
    return [
        {
            "prompt": stem[: rng.randrange(21)]
            + [rng.randrange(50) for _ in range(rng.randrange(1, 9))],
            "max_tokens": rng.randrange(1, 16),
            "at": rng.randrange(0, 12),
            "abort_at": rng.randrange(0, 30) if rng.random() < 0.2 else None,
            "cache_salt": rng.choice([None, None, "a"]),
            "priority": rng.randrange(3),
        }
        for _ in range(n)
    ]


@settings(max_examples=150, deadline=None)
@given(SETTINGS, st.integers(0, 10**6))
def test_every_request_ends_once_with_its_own_tokens_and_no_block_is_lost(config, seed):
    rng = random.Random(seed)
    # Just enough for one request of the model's length: preemption is the normal case.
    tokens = 64
    core = toy_core(
        **config, max_model_len=tokens, num_blocks=-(-tokens // config["block_size"]) + 1
    )
    jobs = workload(rng, 10)
    outputs: dict[int, list[int]] = {}
    ended: list[int] = []
    for step in range(3000):
        for i, job in enumerate(jobs):
            if job["at"] == step:
                fields = {name: job[name] for name in ("cache_salt", "priority")}
                core.add(request(i, job["prompt"], job["max_tokens"], **fields))
            if job["abort_at"] == step and i in core.sequences:
                core.abort(i, Code.ABORT_CALL)
        for output in core.step():
            collect(output, outputs, ended)
        check_conservation(core)
        if step > 30 and not core.has_work:
            break
    assert sorted(ended) == list(range(len(jobs)))
    for i, job in enumerate(jobs):
        want = expected_output(job["prompt"], job["max_tokens"])
        got = outputs.get(i, [])
        assert got == want[: len(got)]
        if job["abort_at"] is None:
            assert got == want
    assert core.scheduler.kv.num_used == 0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([{}, SGLANG, SGLANG | {"block_size": 1}]))
def test_under_fcfs_nobody_is_admitted_before_an_earlier_arrival(seed, policy):
    rng = random.Random(seed)
    core = toy_core(num_blocks=17 * 4 // policy.get("block_size", 4) + 1, max_num_seqs=3, **policy)
    for i in range(12):
        core.add(request(i, [rng.randrange(50) for _ in range(rng.randrange(1, 30))], 8))
    admitted: list[int] = []
    while core.has_work:
        before = {seq.request_id for seq in core.scheduler.running}
        core.step()
        fresh = [s for s in core.scheduler.running if s.request_id not in before]
        admitted += [s.request_id for s in fresh if not s.num_preemptions]
    firsts = list(dict.fromkeys(admitted))
    assert firsts == sorted(firsts)


def settings_of_every_kind() -> Iterator[dict[str, object]]:
    for policy, cache in product(("vllm", "static"), ("hash", "none", "reserve")):
        for block_size, budget in ((1, 8), (4, 64), (16, 16)):
            yield {
                "policy": policy,
                "cache": cache,
                "block_size": block_size,
                "num_blocks": 64 // block_size + 1,
                "max_num_batched_tokens": budget,
            }
    for cache, block_size, mixed in product(("radix", "none"), (1, 4, 16), (False, True)):
        yield {
            "policy": "sglang",
            "cache": cache,
            "block_size": block_size,
            "num_blocks": 64 // block_size + 4,
            "sglang": SglangConfig(
                schedule_policy="lpm",
                chunked_prefill_size=16,
                enable_mixed_chunk=mixed,
                clip_max_new_tokens=1,
            ),
        }


def test_the_same_workload_gives_the_same_tokens_under_every_setting():
    rng = random.Random(5)
    jobs = [([rng.randrange(50) for _ in range(rng.randrange(1, 40))], 12) for _ in range(20)]
    results = []
    for setting in settings_of_every_kind():
        core = toy_core(**setting)
        for i, (prompt, max_tokens) in enumerate(jobs):
            core.add(request(i, prompt, max_tokens))
        results.append(run(core))
    assert all(result == results[0] for result in results)
