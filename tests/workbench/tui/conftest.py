"""A recorded run, the application on it, and pictures to compare with."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.tracing.conftest import RunFolder
from tests.workbench.toy_run import EPOCH_NS, ToyRun, make_toy_run
from tracing.runs import RunInfo
from workbench.tui.app import TopApp
from workbench.tui.frame import Header
from workbench.tui.source import find_source

STEP = 150
"""Where replays begin: eight run, three wait, blocks are shared, and somebody was preempted lately."""


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ToyRun]:
    """A sealed run under memory pressure, always the same, and the engine's own account of it."""
    path = tmp_path_factory.mktemp("runs") / "pressure"
    info = RunInfo(
        run_id="00000000-0000-4000-8000-000000000001",
        created_ns=EPOCH_NS,
        epoch_offset_ns=EPOCH_NS - 1_000_000_000,
        tokens_recorded=True,
    )
    folder = RunFolder(path, info)
    toy = make_toy_run(
        *(folder.recorder("core"), folder.recorder("api")),
        seed=3,
        num_blocks=49,
        max_num_seqs=12,
        max_num_batched_tokens=48,
    )
    toy.run(260, load=(0, 0, 0, 1, 1, 2))
    toy.drain()
    with folder.finished_store() as store:
        summary = store.query("summary").dicts()[0]
    info.sealed(summary).save(path)
    return path, toy


@pytest.fixture
def run_dir(recorded: tuple[Path, ToyRun]) -> Path:
    """The run's folder."""
    return recorded[0]


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's chosen theme, no colours switched off, no server of this machine."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.chdir(tmp_path)


class Top:
    """The application under test."""

    def __init__(self, app: TopApp, pilot: Pilot[None]) -> None:
        self.app, self.pilot = app, pilot

    async def settle(self) -> None:
        """Until everything that was asked for is on the screen."""
        session, answers = self.app.desk.session, self.app.desk.answers
        for _ in range(600):
            await self._handled()
            await self.pilot.pause(0.01)
            is_busy = session.seeker.is_busy
            if session.model is not None and not is_busy and not answers._asking:
                break
        else:
            raise AssertionError("it does not come to rest")
        self.app.desktop.repaint()
        await self.pilot.pause(0.05)
        if answers._asking:
            await self.settle()

    async def _handled(self) -> None:
        """Until all that was pressed so far has been acted on, however long that takes."""
        for pump in (self.app, self.app.desktop, self.app.screen, self.app.focused, self.app):
            done = asyncio.Event()
            if pump is None or not pump.call_later(done.set):
                continue
            while not done.is_set() and pump.is_running:  # a dialog may close meanwhile
                if self.app._exception is not None:
                    raise self.app._exception
                await asyncio.sleep(0.002)

    async def press(self, *keys: str) -> None:
        """Keys, and what comes of them."""
        await self.pilot.press(*keys)
        await self.settle()

    async def type(self, text: str) -> None:
        """Into a dialog, with Enter."""
        await self.pilot.press(*(NAMES.get(char, char) for char in text), "enter")
        await self.settle()

    @property
    def step(self) -> int:
        assert self.app.desk.session.model is not None
        return self.app.desk.session.model.step

    @property
    def place(self) -> str:
        return self.app.desk.places.here.screen

    @property
    def header(self) -> list[str]:
        """The three rows above every screen."""
        return [strip.text for strip in self.app.desktop.query_one(Header)._strips]

    @property
    def text(self) -> str:
        """The characters on the screen under all dialogs."""
        lines: list[str] = []
        for widget in self.app.desktop.children:
            canvas = getattr(widget, "_canvas", None)
            if widget.display and canvas is not None:
                lines += canvas.text()
        return "\n".join(lines)


NAMES = {" ": "space", "<": "less_than_sign", "=": "equals_sign", ".": "full_stop", ":": "colon"}


@asynccontextmanager
async def top(
    run: Path | None, size: tuple[int, int] = (80, 24), step: int | None = STEP, **look: Any
) -> AsyncGenerator[Top]:
    """The application on a run, at a step."""
    app = TopApp(None if run is None else find_source(str(run)), step=step, **look)
    async with app.run_test(size=size) as pilot:
        found = Top(app, pilot)
        if run is not None:
            await found.settle()
        yield found


def drive(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test's coroutine."""

    async def with_limit() -> None:
        async with asyncio.timeout(120):
            await main()

    asyncio.run(with_limit())
