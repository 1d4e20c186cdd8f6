"""A recorded run, the workbench over it, and a real Chromium to look at both."""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Error, Page, sync_playwright

import tracing
from tests.workbench.web.hostile import record_hostile_run
from tracing.reader import Run
from workbench.bench.scripted_run import golden, record
from workbench.web.command import listen

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
CASE = Path(__file__).parents[2] / "golden/vllm/r01_small_mixed.json"
RUN = "small-mixed"
"""96 steps of 30 requests on 27 blocks: chunks, shared blocks, evictions, 7 preemptions."""
NOT_RUN = "BROWSER TESTS DID NOT RUN: there is no chromium on this machine"
_was_missing: list[bool] = []


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _was_missing:
        terminalreporter.section("browser", red=True, bold=True)
        terminalreporter.write_line(NOT_RUN, red=True, bold=True)


@dataclass
class Tab:
    """A page of the workbench that remembers what went wrong in it."""

    page: Page
    base: str
    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._on_console)
        self.page.on("dialog", self._on_dialog)

    def open(self, path: str) -> None:
        self.page.goto(self.base + path)

    def until(self, what: str, seconds: float = 30) -> Any:
        """Wait until an expression is true in the page; its policy forbids wait_for_function."""
        for _ in range(int(seconds * 20)):
            try:
                if value := self.page.evaluate(what):
                    return value
            except Error as error:  # the page went on to another one just now
                if "Execution context was destroyed" not in str(error):
                    raise
            self.page.wait_for_timeout(50)
        seen = self.page.inner_text("body")[:300]
        raise AssertionError(
            f"never true: {what}; the page said {self.errors}, {self.report()}, shows {seen!r}"
        )

    def replay(self, path: str) -> None:
        """Open a replay page and wait for its first whole picture."""
        self.open(path)
        self.until("window.cutaway?.report()?.state === 'ready'")
        self.settled()

    def settled(self) -> None:
        """Rows and blocks of the cursor's step have been drawn, and nothing is on its way."""
        self.until(
            "(r => r && r.shown === r.step && r.rows !== null && !r.loading)(window.cutaway.report())"
        )
        self.page.evaluate("() => new Promise(requestAnimationFrame)")

    def report(self) -> Any:
        return self.page.evaluate("window.cutaway?.report() ?? null")

    def pixel(self, plot: str, x: float, y: float) -> tuple[int, int, int]:
        """The colour that a plot's base canvas has at a css pixel."""
        script = """([plot, x, y]) => {
          const canvas = document.querySelector(`[data-plot=${plot}] .base`), dpr = devicePixelRatio;
          return [...canvas.getContext('2d').getImageData(x * dpr, y * dpr, 1, 1).data].slice(0, 3);
        }"""
        r, g, b = self.page.evaluate(script, [plot, x, y])
        return r, g, b

    def _on_console(self, message: Any) -> None:
        # Reading pixels back is the tests' own doing.
        if message.type in ("error", "warning") and "willReadFrequently" not in message.text:
            self.errors.append(f"{message.type}: {message.text}")

    def _on_dialog(self, dialog: Any) -> None:
        self.errors.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's data folder with two sealed runs: an ordinary one and one from a hostile client."""
    home = tmp_path_factory.mktemp("web-home")
    runs = home / "cutaway" / "runs"
    record(runs / RUN, *golden(CASE))
    record_hostile_run(runs)
    return home


@pytest.fixture(scope="session")
def environment(home: Path) -> Iterator[None]:
    """Runs and servers of this test session only."""
    before = {name: os.environ.get(name) for name in ("XDG_DATA_HOME", "XDG_RUNTIME_DIR")}
    os.environ.update(XDG_DATA_HOME=str(home), XDG_RUNTIME_DIR=str(home))
    old_folder = Path.cwd()
    os.chdir(home)  # not a checkout: its own recordings are nobody's business here
    yield
    os.chdir(old_folder)
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


@pytest.fixture(scope="session")
def run(home: Path) -> Iterator[Run]:
    """The ordinary run, asked directly."""
    opened = tracing.open_run(home / "cutaway" / "runs" / RUN)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def app(environment: None) -> Any:
    """The workbench: one for all tests, because Dash keeps one per process."""
    from workbench.web.app import make_app

    return make_app()


@pytest.fixture(scope="session")
def base(app: Any) -> Iterator[str]:
    """Its address, while it is served."""
    listener = listen("127.0.0.1", 0)
    config = uvicorn.Config(
        app, log_level="error", access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium. Where it is missing the tests say so loudly, and CI fails."""
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail(NOT_RUN)
        _was_missing.append(True)
        pytest.skip(NOT_RUN)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def new_tab(browser: Browser, base: str) -> Iterator[Callable[..., Tab]]:
    """Opens tabs; afterwards none of them may have had an error."""
    tabs: list[Tab] = []

    def make(**options: Any) -> Tab:
        sizes = {"viewport": {"width": 1440, "height": 900}, "locale": "en-US"}
        context = browser.new_context(**(sizes | options))
        tabs.append(Tab(context.new_page(), base))
        return tabs[-1]

    yield make
    said = [error for tab in tabs for error in tab.errors]
    for tab in tabs:
        tab.page.context.close()
    assert not said


@pytest.fixture
def tab(new_tab: Callable[..., Tab]) -> Tab:
    """A tab of the usual size."""
    return new_tab()
