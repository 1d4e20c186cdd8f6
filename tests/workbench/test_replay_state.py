"""State by rows = state by keyframe = the engine's own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.config_sglang import SglangConfig
from engine.messages import Steer
from tests.tracing.conftest import RunFolder
from tests.tracing.test_engine_agreement import Told
from tests.workbench.toy_run import ToyRun, make_toy_run
from tracing.ingest import Ingest
from tracing.keyframe import NUM_DONE, describe, keyframe_at
from tracing.record import Level
from tracing.store import Store
from tracing.window import rows_between
from workbench.replay_state import State

NOT_THERE_YET = ("queued_ns", "left_ns")
SETTINGS: dict[str, dict[str, Any]] = {
    "vllm": {},
    "priority": {"scheduling_policy": "priority"},
    "static": {"policy": "static"},
    "sglang": {
        "policy": "sglang",
        "num_blocks": 40,
        "block_size": 4,
        "sglang": SglangConfig(schedule_conservativeness=0.1),
    },
}


def replay(store: Store, step: int | None) -> State:
    said = describe(store)
    return State(said["columns"], said["run"], keyframe_at(store, step=step))


def pool_of(state: State) -> Told:
    place = {block.block_id: i + 1 for i, block in enumerate(state.pool.eviction_order())}
    return {
        i: (block.state, place.get(i), {who: idx or 0 for who, idx in block.holders.items()})
        for i, block in state.blocks.items()
    }


def comparable(state: State) -> dict[str, Any]:
    """What must not depend on how the state was reached."""
    blocks = {
        i: (b.state, b.ref_count, b.node_id, b.free_key, b.holders, b.last_owner, b.touched_step)
        for i, b in state.blocks.items()
    }
    # When exactly somebody left is told by the front end, later; that it left is known at once.
    done = sorted(r["end_ns"] for r in state.requests.values() if r["end_ns"] is not None)
    shortest = done[-NUM_DONE // 2 :][0] if done else 0  # both remember those, and some more
    facts = {
        request_id: {name: facts[name] for name in facts if name not in NOT_THERE_YET}
        | {"has_left": facts["left_ns"] is not None and request_id not in state.running}
        for request_id, facts in state.requests.items()
        if facts["end_ns"] is None or facts["end_ns"] > shortest
    }
    return {
        "step": state.step,
        "running": state.running,
        "waiting": state.waiting,
        "blocks": blocks,
        "requests": facts,
        "totals": state.totals,
        "step_row": state.step_row,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    run = RunFolder(tmp_path / "run")
    yield run
    run.close_writers(goodbye=False)


@pytest.fixture(params=list(SETTINGS))
def recorded(request: pytest.FixtureRequest, folder: RunFolder) -> Iterator[tuple[ToyRun, Store]]:
    settings = SETTINGS[request.param]
    toy = make_toy_run(folder.recorder("core"), folder.recorder("api"), **settings)
    toy.run(60)
    toy.drain()
    with folder.finished_store() as store:
        yield toy, store


def test_rows_and_keyframes_lead_to_the_engines_own_state(recorded: tuple[ToyRun, Store]) -> None:
    toy, store = recorded
    state = replay(store, 0)
    last = max(toy.seen)
    for step in range(1, last + 1):
        facts = state.apply(rows_between(store, 0, step, step))
        assert [f.step for f in facts if f.row is not None] == [step]
        seen = toy.seen[step]
        assert state.step == step
        assert state.running == seen.running
        assert sorted(state.waiting) == sorted(seen.waiting)
        assert pool_of(state) == seen.pool
        if step % 13 == 0 or step == last:
            assert comparable(state) == comparable(replay(store, step)), step
    state.apply(rows_between(store, 0, last + 1, last + 1))
    assert comparable(state) == comparable(replay(store, None))


def test_the_queue_is_in_the_engines_order(recorded: tuple[ToyRun, Store]) -> None:
    toy, store = recorded
    if toy.core.scheduler.config.policy == "sglang":
        pytest.skip("it sorts its queue again in each pass, and the trace has no line for that")
    for step in list(toy.seen)[::11]:
        assert replay(store, step).waiting == toy.seen[step].waiting


def test_one_window_is_as_good_as_many(recorded: tuple[ToyRun, Store]) -> None:
    toy, store = recorded
    middle, last = max(toy.seen) // 2, max(toy.seen)
    at_once = replay(store, middle)
    happened = at_once.apply(rows_between(store, 0, middle + 1, last))
    assert [f.step for f in happened if f.row] == list(range(middle + 1, last + 1))
    assert comparable(at_once) == comparable(replay(store, last))


def test_without_block_events_queue_and_batch_still_come_out(folder: RunFolder) -> None:
    front = folder.recorder("api", level=Level.STEPS)
    toy = make_toy_run(folder.recorder("core", level=Level.STEPS), front)
    toy.run(60)
    toy.drain()
    with folder.finished_store() as store:
        state = replay(store, 0)
        assert not state.has_blocks
        assert state.blocks == {}
        num_same = 0
        for step in range(1, max(toy.seen) + 1):
            state.apply(rows_between(store, 0, step, step))
            seen = toy.seen[step]
            # Who ended in this very step is told by the front end only, a moment later.
            assert set(state.running) >= set(seen.running)
            num_same += state.running == seen.running
        assert num_same > 20


@pytest.mark.parametrize("how", ["keyframe", "rows"])
def test_while_a_planned_step_is_held_everybody_is_somewhere(folder: RunFolder, how: str) -> None:
    """The queue's length was said before the plan was made, and before those came who wait behind it."""
    toy = make_toy_run(folder.recorder("core"), folder.recorder("api"), seed=3)
    toy.run(12)
    toy.drain()
    last = max(toy.seen)
    toy.core.control.act(Steer("break", "free < 9999"))
    toy.arrive()
    toy.turn()
    toy.arrive()
    toy.arrive()
    scheduler = toy.core.scheduler
    assert toy.core.control.is_stopped
    assert (len(scheduler.running), len(scheduler.waiting)) == (1, 2)
    toy.core.recorder.flush()
    with Store.writable(folder.path) as store:
        ingest = Ingest(folder.path, folder.info, store)
        ingest.catch_up()
        state = replay(store, None if how == "keyframe" else last)
        if how == "rows":
            state.apply(rows_between(store, 0, last + 1, last + 1))
    assert state.running == [seq.request_id for seq in scheduler.running]
    assert state.waiting == [seq.request_id for seq in scheduler.waiting]
