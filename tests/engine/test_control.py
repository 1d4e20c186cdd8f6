from typing import Any

import pytest

from engine.config_sglang import SglangConfig
from engine.core import EngineCore
from engine.messages import Steer
from tests.engine.recorded import MemorySink, parse_records
from tests.engine.toys import expected_output, request, run, toy_core
from tracing.record import Code, Kind, Recorder

PROMPTS = [[i] * 6 + list(range(i, i + 7)) for i in range(1, 9)]


def make(**settings: Any) -> tuple[EngineCore, MemorySink]:
    sink = MemorySink()
    return toy_core(Recorder(sink, role="core", engine_id=0), **settings), sink


def fill(core: EngineCore, n: int = 8, max_tokens: int = 12) -> None:
    for i in range(n):
        core.add(request(i + 1, PROMPTS[i], max_tokens))


def events(sink: MemorySink) -> list[tuple[int, int | None, int | None, int | None]]:
    return [(r["code"], r["step"], r["a0"], r["a1"]) for r in parse_records(sink.data, Kind.EVENT)]


def num_steps(core: EngineCore) -> int:
    return core.scheduler.num_steps


def test_paused_it_plans_nothing_and_has_no_work_until_it_is_resumed() -> None:
    core, sink = make()
    fill(core)
    core.step()
    told = core.control.act(Steer("pause"))
    assert (told.is_paused, told.next_step, told.plan) == (True, 1, None)
    assert not core.has_work
    assert core.step() == []
    assert num_steps(core) == 1
    core.control.act(Steer("pause"))  # twice is once
    assert not core.control.act(Steer("resume")).is_paused
    assert core.has_work
    assert run(core).keys() == set(range(1, 9))
    assert events(sink) == [(Code.PAUSE, 1, 1, None), (Code.RESUME, 1, 1, None)]


def test_single_steps_run_as_many_as_asked() -> None:
    core, _ = make()
    fill(core)
    core.control.act(Steer("step", value=1))
    while core.has_work:
        core.step()
    assert num_steps(core) == 1
    core.control.act(Steer("step", value=3))
    while core.has_work:
        core.step()
    assert num_steps(core) == 4
    assert core.control.act(Steer("look")).is_paused


@pytest.mark.parametrize("policy", ["vllm", "static", "sglang"])
def test_tokens_do_not_depend_on_it(policy: str) -> None:
    settings: dict[str, Any] = {"policy": policy, "num_blocks": 20}
    if policy == "sglang":
        settings["sglang"] = SglangConfig(schedule_conservativeness=0.1)
    core, _ = make(**settings)
    fill(core)
    for when in ("preempt", "free < 4", "request 3 first token"):
        core.control.act(Steer("break", when))
    outputs: dict[int, list[int]] = {}
    num_stops = 0
    for turn in range(2000):
        for output in core.step():
            outputs.setdefault(output.request_id, []).extend(output.token_ids)
        if turn % 9 == 0:
            core.control.act(Steer("knob", "max_num_seqs", 2 + turn % 5))
        if core.control.is_stopped:
            num_stops += 1
            core.control.act(Steer("step" if num_stops % 2 else "resume", value=1))
        if not core.scheduler.num_unfinished:
            break
    assert num_stops >= 2
    for i, prompt in enumerate(PROMPTS):
        assert outputs[i + 1] == expected_output(prompt, 12)


def test_a_breakpoint_holds_the_step_that_was_planned() -> None:
    core, sink = make(num_blocks=20)
    fill(core)
    added = core.control.act(Steer("break", " preempt "))
    assert [(b.breakpoint_id, b.when) for b in added.breakpoints] == [(1, "preempt")]
    while core.has_work:
        core.step()
    told = core.control.act(Steer("look"))
    assert told.stopped_by == "preempt"
    assert told.plan is not None
    assert told.plan.preempted
    assert told.next_step == told.plan.step == num_steps(core) - 1
    (event,) = events(sink)
    assert event == (Code.BREAKPOINT, told.plan.step, 1, told.plan.step)
    before = {r.request_id: r.num_scheduled_tokens for r in told.plan.rows}
    core.control.act(Steer("step", value=1))
    core.step()
    steps = parse_records(sink.data, Kind.STEP)
    assert len(steps) == told.plan.step + 1, "the held step is the one that ran"
    assert steps[-1]["num_tokens"] == sum(before.values())
    assert core.control.is_stopped
    core.control.act(Steer("unbreak", value=1))
    core.control.act(Steer("resume"))
    run(core)


def test_how_long_a_step_was_held_is_no_part_of_it() -> None:
    core, sink = make(num_blocks=20)
    now = 0

    def clock() -> int:
        nonlocal now
        now += 1000
        return now

    core.clock = core.scheduler.clock = clock
    fill(core)
    core.control.act(Steer("break", "preempt"))
    while core.has_work:
        core.step()
    planned_ns = now
    now += 60_000_000_000
    core.control.act(Steer("resume"))
    core.step()
    step = parse_records(sink.data, Kind.STEP)[-1]
    assert step["start_ns"] is not None
    assert step["start_ns"] > planned_ns + 50_000_000_000
    assert step["end_ns"] - step["start_ns"] < 1_000_000


def test_a_state_that_lasts_stops_once() -> None:
    core, _ = make(num_blocks=20)
    fill(core)
    core.control.act(Steer("break", "free < 8"))
    while core.has_work:
        core.step()
    assert core.scheduler.kv.num_free < 8
    first = num_steps(core)
    core.control.act(Steer("resume"))
    for _ in range(3):
        core.step()
    assert num_steps(core) > first + 1


def test_a_request_that_is_aborted_while_its_step_is_held_does_not_run() -> None:
    core, sink = make()
    fill(core, 3)
    core.control.act(Steer("break", "request 2 first token"))
    while core.has_work:
        core.step()
    core.abort(2, Code.ABORT_CALL)
    (ended,) = core.step()
    assert (ended.request_id, ended.end is not None) == (2, True)
    core.control.act(Steer("resume"))
    outputs = run(core)  # checks that nobody's memory was touched
    assert outputs.keys() == {1, 3}
    rows = [r for r in parse_records(sink.data, Kind.ROW) if r["request_id"] == 2]
    assert rows == []


def test_a_held_step_that_has_lost_all_its_rows_is_planned_anew() -> None:
    core, _ = make()
    core.add(request(1, PROMPTS[0], 4))
    core.control.act(Steer("break", "request 1 first token"))
    while core.has_work:
        core.step()
    core.abort(1, Code.ABORT_CALL)
    core.step()
    core.add(request(2, PROMPTS[1], 4))
    core.control.act(Steer("resume"))
    assert run(core) == {2: expected_output(PROMPTS[1], 4)}


def test_knobs_change_the_next_plan_and_stay_within_what_memory_was_laid_out_for() -> None:
    core, sink = make(max_num_batched_tokens=32, max_num_seqs=8)
    fill(core)
    told = core.control.act(Steer("knob", "max_num_batched_tokens", 8))
    assert told.error is None
    assert told.knobs["max_num_batched_tokens"] == 8
    core.control.act(Steer("knob", "chunk_cap", 3))
    core.step()
    (step,) = parse_records(sink.data, Kind.STEP)
    assert step["num_tokens"] <= step["token_budget"] == 8
    assert events(sink) == [(Code.KNOB, 0, 0, 32), (Code.KNOB, 0, 2, 0)]
    for name, value in (("max_num_batched_tokens", 33), ("max_num_seqs", 0), ("colour", 1)):
        refused = core.control.act(Steer("knob", name, value))
        assert refused.error
        assert refused.knobs == {"max_num_batched_tokens": 8, "max_num_seqs": 8, "chunk_cap": 3}


@pytest.mark.parametrize("when", ["", "free", "free < many", "request first token", "lunch"])
def test_conditions_that_are_not_known_are_refused_with_those_that_are(when: str) -> None:
    core, _ = make()
    told = core.control.act(Steer("break", when))
    assert told.error is not None
    assert "free < 8" in told.error
    assert told.breakpoints == []
    assert core.control.act(Steer("unbreak", value=1)).error == "there is no breakpoint 1"
    (next_one,) = core.control.act(Steer("break", "preempt")).breakpoints
    assert next_one.breakpoint_id == 1, "a refused one takes no number"
