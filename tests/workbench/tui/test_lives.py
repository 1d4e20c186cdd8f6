"""A run whose core was killed: its lives one after the other, and nobody waits for the dead."""

import time
from pathlib import Path

import pytest

from tests.tracing.conftest import RunFolder
from tests.workbench.toy_run import ToyRun, make_toy_run
from tests.workbench.tui.conftest import Top, drive, top
from tracing.reader import open_run
from workbench.tui.story import story_of

Lives = tuple[Path, ToyRun, ToyRun]


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Lives:
    """Everything was killed after some steps, with requests open, and began anew."""
    path = tmp_path_factory.mktemp("runs") / "killed"
    folder = RunFolder(path)

    def begin(seed: int, ago_ns: int) -> ToyRun:
        front = folder.recorder("api")
        toy = make_toy_run(folder.recorder("core"), front, seed=seed)
        toy.clock.now = time.monotonic_ns() - ago_ns
        return toy

    first = begin(1, 60_000_000_000)
    first.run(40, load=(0, 1, 1, 2))
    first.arrive()  # it never comes to the core's next step
    assert first.arrivals
    second = begin(2, 0)
    second.run(30, load=(0, 1, 1, 2))
    second.drain()
    with folder.finished_store() as store:
        summary = store.query("summary").dicts()[0]
    folder.info.sealed(summary).save(path)
    return path, first, second


def check(t: Top, toy: ToyRun, step: int, life: int) -> None:
    model = t.app.desk.session.model
    assert model is not None
    assert t.step == step
    assert model.state.running == toy.seen[step].running
    assert model.state.waiting == toy.seen[step].waiting
    assert f"{step} / {max(toy.seen)} life {life}/2" in "\n".join(t.header)


def test_a_replay_goes_from_life_to_life(lives: Lives) -> None:
    path, first, second = lives
    last, end = max(first.seen), max(second.seen)

    async def main() -> None:
        async with top(path, (120, 36), step=None) as t:
            session = t.app.desk.session
            session.is_playing = False
            assert "lives of the core in this run: 2" in "\n".join(t.header)
            await t.press("g")
            check(t, first, 0, 1)
            await t.press("G")
            check(t, first, last, 1)
            for key, toy, step, life in (
                *(("right", second, 0, 2), ("right", second, 1, 2), ("left", second, 0, 2)),
                *(("left", first, last, 1), ("shift+right", second, 0, 2)),
            ):
                await t.press(key)
                check(t, toy, step, life)
            await t.press("left", "shift+left")
            for _ in range(10):
                await t.press("plus")
            await t.pilot.press("space")
            for _ in range(400):
                await t.pilot.pause(0.02)
                if not session.is_playing:
                    break
            await t.settle()
            check(t, second, end, 2)

    drive(main)


def test_a_life_tells_its_own_story(lives: Lives) -> None:
    path, _, second = lives
    run = open_run(path)
    told = dict(run.sql("SELECT request_id, count(*) FROM token GROUP BY 1").rows)
    begun = dict(
        run.sql(
            """SELECT request_id, min(step) FROM (
                   SELECT request_id, engine_id, step FROM step_request WHERE code <> 101
                   UNION ALL SELECT request_id, engine_id, step FROM decision)
               WHERE engine_id = (SELECT min(engine_id) FROM step) AND request_id IS NOT NULL
               GROUP BY 1 HAVING min(step) > 0"""
        ).rows
    )
    run.close()

    async def main() -> None:
        async with top(path, step=max(second.seen)) as t:
            model = t.app.desk.session.model
            assert model is not None
            own = second.front.proc_id
            entries = model.timeline.entries(model.step, 100_000)
            assert {entry.request_id >> 32 for entry in entries if entry.request_id} == {own}
            ended = [r for r in model.state.requests.values() if r["end_ns"] or r["left_ns"]]
            assert any(r["request_id"] >> 32 != own for r in ended)
            strangers = [who for who in begun if who in model.facts][:5]
            assert strangers
            for who in strangers:
                story_of(model, who, t.app.desk.answers, t.app.desk.words)  # it is asked for
            await t.settle()
            for who in strangers:
                lines = story_of(model, who, t.app.desk.answers, t.app.desk.words)
                assert (lines[0].kind, lines[0].step) == ("arrive", begun[who])
            for request in ended:
                assert request["num_output_tokens"] == told.get(request["request_id"], 0)

    drive(main)
