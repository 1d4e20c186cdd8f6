from tests.engine.toys import expected_output, request, run, toy_core
from tracing.record import Code


def step_codes(core) -> list[list[tuple[int, Code]]]:
    """Rows of every step as (request, code), by watching what the executor gets."""
    seen: list[list[tuple[int, Code]]] = []
    submit = core.executor.submit
    core.executor.submit = lambda batch: (
        seen.append([(row.seq.request_id, row.code) for row in batch.rows]),
        submit(batch),
    )
    run(core)
    return seen


def test_a_batch_is_closed_until_its_longest_answer_has_ended():
    core = toy_core(policy="static", max_num_seqs=2)
    for i, max_tokens in enumerate((2, 5, 1)):
        core.add(request(i, [i + 1, 7], max_tokens))
    steps = step_codes(core)
    assert steps[0] == [(0, Code.ADMIT_STATIC), (1, Code.ADMIT_STATIC)]
    assert steps[1] == [(0, Code.RUN_DECODE), (1, Code.RUN_DECODE)]
    # Request 0 has ended after two tokens, yet computes padding for three more steps.
    assert steps[2:5] == [[(0, Code.PAD_STATIC), (1, Code.RUN_DECODE)]] * 3
    assert steps[5] == [(2, Code.ADMIT_STATIC)]
    assert len(steps) == 6


def test_continuous_batching_needs_fewer_steps_for_the_same_load():
    counts = {}
    for policy in ("static", "vllm"):
        core = toy_core(policy=policy, max_num_seqs=2)
        for i, max_tokens in enumerate((2, 6, 2, 6, 2, 6)):
            core.add(request(i, [i + 1, 7], max_tokens))
        run(core)
        counts[policy] = core.scheduler.num_steps
    assert counts["vllm"] < counts["static"]


def test_a_member_that_is_aborted_keeps_its_place_as_padding():
    core = toy_core(policy="static")
    core.add(request(0, [1, 2, 3], 8))
    core.add(request(1, [4, 5, 6], 3))
    core.step()
    core.abort(0, Code.ABORT_CALL)
    used = core.scheduler.kv.num_used
    assert run(core) == {0: [], 1: expected_output([4, 5, 6], 3)[1:]}
    assert used > 0
    assert core.scheduler.kv.num_used == 0


def test_the_prompt_of_a_member_that_is_aborted_is_still_computed_for_those_who_share_it():
    prompt = list(range(14))
    core = toy_core(policy="static", max_num_batched_tokens=4, max_num_seqs=2)
    core.add(request(0, prompt, 3))
    core.add(request(1, prompt, 3))
    core.step()
    core.abort(0, Code.ABORT_CALL)
    assert core.sequences[1].num_computed_tokens == 12
    assert run(core) == {0: [], 1: expected_output(prompt, 3)}


def test_long_prompts_are_prefilled_in_chunks_before_anybody_decodes():
    core = toy_core(policy="static", max_num_batched_tokens=8)
    core.add(request(0, list(range(20)), 2))
    core.add(request(1, list(range(30, 33)), 2))
    steps = step_codes(core)
    assert [[code for _, code in rows] for rows in steps] == [
        [Code.ADMIT_STATIC],
        [Code.RUN_CHUNK],
        [Code.RUN_CHUNK, Code.ADMIT_STATIC],
        [Code.RUN_DECODE, Code.RUN_DECODE],
    ]
