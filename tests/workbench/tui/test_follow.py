"""Following a run that is being recorded: a real recorder, a toy engine that this test moves by hand."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import tracing
import tracing.follow
from tests.workbench.toy_run import ToyRun, make_toy_run
from tests.workbench.tui.conftest import Top, drive, top
from tests.workbench.tui.test_screens import told_by_viewer
from tracing.codes import Code
from tracing.record import Recorder
from tracing.recording import Recording, attach
from tracing.runs import RECORDER_FILE
from workbench.tui.mode import Mode, news

BUSY = (0, 0, 1, 1, 2)


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    with tracing.start(tmp_path / "run") as found:
        found.sync()  # the recorder answers
        yield found


def make_core(recording: Recording, seed: int, core: Recorder | None = None) -> ToyRun:
    toy = make_toy_run(core or recording.recorder("core"), recording.recorder("api"), seed=seed)
    toy.clock.now = time.monotonic_ns()
    return toy


def go_on(toy: ToyRun, num_steps: int) -> int:
    """So many turns; returns the last step."""
    toy.run(num_steps, load=BUSY)
    toy.core.recorder.flush()
    return max(toy.seen)


async def until(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, f"{what} never came"
        await asyncio.sleep(0.02)


@asynccontextmanager
async def following(recording: Recording, toy: ToyRun) -> AsyncGenerator[Top]:
    """The application, live at the toy's last step."""
    last = go_on(toy, 20)
    async with top(recording.run_dir, (120, 36), step=None) as t:
        await until("the start", lambda: t.app.desk.session.mode is Mode.LIVE and t.step == last)
        yield t


async def check(t: Top, toy: ToyRun, step: int) -> None:
    """The screen's state is the engine's own, once the front end's word of new requests is there too."""
    model = t.app.desk.session.model
    assert model is not None
    seen = toy.seen[step]
    assert model.step == step
    assert model.state.running == seen.running
    await until("the queue", lambda: sorted(model.state.waiting) == sorted(seen.waiting))
    assert told_by_viewer(model.state) == seen.pool


def test_it_follows_and_stands_and_comes_back(recording: Recording) -> None:
    toy = make_core(recording, 1)
    recorder = json.loads((recording.run_dir / RECORDER_FILE).read_text())["pid"]

    async def main() -> None:
        async with following(recording, toy) as t:
            session = t.app.desk.session
            for num_steps in (7, 500, 7):  # many: one frame tells of whole lives, and forgets them
                last = go_on(toy, num_steps)
                await until("steps", lambda last=last: t.step == last)  # type: ignore[misc]
                await check(t, toy, last)
            await t.press("space")
            assert session.mode is Mode.PAUSED
            newest = go_on(toy, 9)
            await until("word of newer steps", lambda: session.newest_step == newest)
            await check(t, toy, last)
            await t.press("left")
            await until("the step before", lambda: t.step == last - 1)
            await check(t, toy, last - 1)
            os.kill(recorder, signal.SIGSTOP)
            try:
                await t.pilot.press("G")
                await t.pilot.pause(0.2)
                assert (session.mode, t.step) == (Mode.LOADING, last - 1)
                await t.pilot.press("space")
                assert session.mode is Mode.PAUSED, "it may be frozen meanwhile"
            finally:
                os.kill(recorder, signal.SIGCONT)
            await t.press("G")
            await until("the newest", lambda: session.mode is Mode.LIVE and t.step == newest)
            await check(t, toy, newest)

    drive(main)


def test_a_line_that_was_silent_goes_on_where_it_was(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing.follow, "SILENCE_SECONDS", 4.0)
    toy = make_core(recording, 2)
    pid = json.loads((recording.run_dir / RECORDER_FILE).read_text())["pid"]

    async def main() -> None:
        async with following(recording, toy) as t:
            session = t.app.desk.session
            model = session.model
            os.kill(pid, signal.SIGSTOP)
            try:
                await until("the loss", lambda: session.mode is Mode.LOST)
                last = go_on(toy, 12)
            finally:
                os.kill(pid, signal.SIGCONT)
            await until("its steps", lambda: session.mode is Mode.LIVE and t.step == last)
            assert session.model is model, "continued by its cursor, not begun anew"
            assert session.notice is None
            await check(t, toy, last)

    drive(main)


def test_a_new_life_of_the_core_begins_at_step_0(recording: Recording) -> None:
    old = make_core(recording, 3)
    second: list[Recorder] = []

    async def main() -> None:
        async with following(recording, old) as t:
            session = t.app.desk.session
            go_on(old, 60)
            old.drain()
            old.core.recorder.flush()
            before = max(old.seen)
            await until("its last step", lambda: t.step == before)
            second.append(attach(recording.handle, "core"))
            new = make_core(recording, 4, second[0])
            new.num_requests = old.num_requests
            last = go_on(new, 10)
            await until("the new life", lambda: session.mode is Mode.LIVE and t.step == last)
            await check(t, new, last)
            model = session.model
            assert model is not None
            assert [c.step for c in model.timeline.upto(last, 99)] == list(range(last + 1))
            assert session.newest_step == last
            t.app.desktop.repaint()
            assert "another one works" in "\n".join(t.header)

    try:
        drive(main)
    finally:
        for recorder in second:
            recorder.close()


def test_a_dead_core_is_named_until_there_is_another(recording: Recording) -> None:
    """All that served has died: nobody waits for its requests, in the old life and in the next."""
    old = make_core(recording, 5)
    second: list[Recorder] = []

    async def main() -> None:
        async with following(recording, old) as t:
            session = t.app.desk.session
            waiting = old.arrive(), old.arrive()

            def said() -> str:
                t.app.desktop.repaint()
                return "\n".join(t.header)

            def queue() -> list[int]:
                return session.model.state.waiting if session.model else []

            assert len(old.core.scheduler.waiting) >= 2
            supervisor = recording.recorder("supervisor")
            supervisor.event(Code.PROC_DIED, old.front.proc_id, 9)
            supervisor.flush()
            await until("word of it", lambda: "core gone since" in said())
            assert not set(waiting) & set(queue())
            front = attach(recording.handle, "api")
            second.extend((front, attach(recording.handle, "core")))
            for recorder in second:
                recorder.flush()
            await until("the new life", lambda: session.model is not None and t.step == -1)
            await until("word of no step", lambda: "step       –" in said())
            assert "core gone" not in said()
            assert queue() == []
            new = make_toy_run(second[1], front, seed=6)
            new.clock.now = time.monotonic_ns()
            last = go_on(new, 10)
            await until("its steps", lambda: session.mode is Mode.LIVE and t.step == last)
            await check(t, new, last)

    try:
        drive(main)
    finally:
        for recorder in second:
            recorder.close()


def test_what_is_told_after_the_last_step_counts_without_another(recording: Recording) -> None:
    toy = make_core(recording, 7)

    async def main() -> None:
        async with following(recording, toy) as t:
            session = t.app.desk.session
            toy.drain()
            toy.core.recorder.flush()
            await until("the last step", lambda: t.step == max(toy.seen))

            def is_counted() -> bool:
                model = session.model
                assert model is not None
                found = model.figures.latency.get("e2e_ns", {})
                return found.get("n") == toy.num_requests

            await until("all ends", is_counted)

    drive(main)


def test_news_go_while_nothing_happens(recording: Recording) -> None:
    toy = make_core(recording, 8)

    async def main() -> None:
        async with following(recording, toy) as t:
            t.app.desk.session.notice = news("tui.notice.behind", 0.2, s="1.2")
            await until("silence", lambda: t.app.desk.session.notice is None)

    drive(main)
