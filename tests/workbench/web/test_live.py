"""Live: the page follows a run while it is recorded, and agrees with it afterwards."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import tracing
from tests.workbench.toy_run import ToyRun, make_toy_run
from tests.workbench.web.conftest import Tab
from tracing.recording import attach
from workbench.look.words import Words
from workbench.servers import RunningServer, announced
from workbench.web.child import web_process

NAME = "live-run"


@pytest.fixture
def recording(environment: None, home: Path) -> Iterator[tracing.Recording]:
    """A run that is being recorded, by a recorder process of its own."""
    recording = tracing.start(home / "cutaway/runs" / NAME, record_tokens=True)
    yield recording
    try:
        recording.close()
    finally:  # whatever happened, other tests count the runs there are
        print((recording.run_dir / "recorder.log").read_text())
        shutil.rmtree(recording.run_dir)


def follow(tab: Tab, toy: ToyRun, steps: int) -> None:
    """Let the engine run, and wait until the page has seen its last step."""
    toy.run(steps)
    last = toy.core.scheduler.num_steps - 1
    tab.until(
        f"window.cutaway.report()?.last === {last} && window.cutaway.report().step === {last}"
    )
    tab.settled()


def test_the_page_follows_a_run_and_agrees_with_the_engine(
    tab: Tab, recording: tracing.Recording
) -> None:
    toy = make_toy_run(recording.recorder("core"), recording.recorder("api"))
    tab.open(f"/replay/{NAME}")
    tab.until("window.cutaway?.report()?.state === 'waiting'")
    follow(tab, toy, 90)
    assert tab.page.inner_text(".badge") == "Live"
    compare(tab, toy)
    # Looking back does not stop the run, and one key leads back to it.
    tab.page.keyboard.press("ArrowLeft")
    tab.until("window.cutaway.report().following === false")
    toy.run(40)
    last = toy.core.scheduler.num_steps - 1
    tab.until(f"window.cutaway.report().last === {last}")
    assert "behind" in tab.page.inner_text(".badge")
    assert tab.report()["step"] < last
    tab.page.keyboard.press("l")
    follow(tab, toy, 10)
    compare(tab, toy)
    toy.drain()
    recording.close()
    tab.until("document.querySelector('.badge').dataset.kind === 'ended'")
    assert f"step {toy.core.scheduler.num_steps - 1}" in tab.page.inner_text(".badge")
    # The badge says more now, and the scrubber makes room for it.
    tab.until(
        "document.querySelector('.scrubber canvas').getBoundingClientRect().right"
        " < document.querySelector('.transport .right').getBoundingClientRect().left"
    )
    clock = "window.cutaway.get().run.baseNs"
    began = tab.page.evaluate(clock)
    tab.page.reload()
    tab.until("window.cutaway?.report()?.state === 'ready'")
    tab.settled()
    assert tab.page.inner_text(".badge") == "Replay"
    assert tab.page.evaluate(clock) == began, "the same time, however early the page was opened"


def compare(tab: Tab, toy: ToyRun) -> None:
    """Every block, and everybody who came, as the engine saw them after the cursor's step."""
    compare_pool(tab, toy)
    ends = tab.page.evaluate("window.cutaway.get().run.lives.filter((l) => l.end !== null).length")
    assert ends <= toy.num_requests
    lives = tab.page.evaluate("window.cutaway.get().run.lives.length")
    assert lives == toy.num_requests


def compare_pool(tab: Tab, toy: ToyRun) -> None:
    """Every block as the engine saw it after the cursor's step."""
    step = tab.report()["step"]
    seen = toy.seen[step]
    assert seen.pool is not None
    script = """() => { const { run } = window.cutaway.get(), pool = run.pool(run.last);
      return Array.from({ length: pool.num - 1 }, (_, i) => i + 1).map((b) => [
        b, ['free', 'cached', 'used'][pool.state[b]],
        Object.fromEntries((pool.holders[b] || []).map(([id, idx]) => [id, idx]))]); }"""
    told = {b: (state, held) for b, state, held in tab.page.evaluate(script)}
    for block, (state, _, held) in seen.pool.items():
        assert told[block] == (state, {str(k): v for k, v in held.items()}), f"block {block}"


def test_metrics_of_a_live_run_come_by_themselves(tab: Tab, recording: tracing.Recording) -> None:
    tab.open(f"/metrics/{NAME}?lang=zh")
    tab.until("document.querySelector('.statebox.on-norequest') !== null")
    assert Words("zh")("web.state.norequest") in tab.page.inner_text(".metrics")
    toy = make_toy_run(recording.recorder("core"), recording.recorder("api"))
    number = "document.querySelector('[data-metric=requests] b')?.innerText"
    for _ in range(2):
        toy.run(20)
        tab.until(f"{number} === '{toy.num_requests}'")
    tab.until("document.querySelectorAll('.chart .main-svg').length > 0")
    toy.drain()
    recording.close()
    seen = tab.until(number)
    assert seen == str(toy.num_requests)


def test_a_workbench_that_does_not_answer_is_said(tab: Tab) -> None:
    tab.open("/learn?lang=zh")
    tab.until("document.querySelector('.offline') !== null")
    tab.page.context.set_offline(True)
    tab.until("!document.querySelector('.offline').hidden")
    assert Words("zh")("web.state.offline") in tab.page.inner_text(".offline")
    tab.page.context.set_offline(False)
    tab.until("document.querySelector('.offline').hidden")
    tab.errors = [error for error in tab.errors if "ERR_INTERNET_DISCONNECTED" not in error]


def test_the_playground_goes_on_when_a_server_comes_and_says_when_it_went(tab: Tab) -> None:
    words = Words("zh")
    tab.open("/playground?lang=zh")
    tab.until("document.querySelector('.statebox') !== null")
    assert words("web.chat.nobody_why") in tab.page.inner_text("#page")
    with announced(RunningServer(os.getpid(), "http://127.0.0.1:1", "toy", None)):
        tab.until("window.cutaway?.report('chat') !== null")
        assert tab.page.locator(".gone").is_hidden()
        tab.page.fill(".chat textarea", "Hello")
        tab.page.keyboard.press("Enter")
        tab.until("document.querySelector('.chatlog .note.alarm') !== null")
        assert "没有回答" in tab.page.inner_text(".chatlog")
    tab.until("!document.querySelector('.gone').hidden")
    assert words("web.chat.gone") in tab.page.inner_text(".chat")
    assert tab.page.locator(".chat [type=submit]").is_disabled()
    tab.errors = [error for error in tab.errors if "502" not in error]


def test_a_lost_line_is_said_and_mended(recording: tracing.Recording, tab: Tab) -> None:
    toy = make_toy_run(recording.recorder("core"), recording.recorder("api"), seed=1)
    toy.run(20)
    recording.sync()
    tab.replay(f"/replay/{NAME}")
    tab.page.context.set_offline(True)
    tab.page.evaluate("window.cutaway.get().live.source.onerror()")  # as a broken line would
    tab.until("document.querySelector('.badge').dataset.kind === 'lost'")
    tab.until("!document.querySelector('.banner.lost').hidden")
    assert "No news from the recorder" in tab.page.inner_text(".banner.lost")
    toy.run(20)
    tab.page.context.set_offline(False)
    last = toy.core.scheduler.num_steps - 1
    tab.until(f"window.cutaway.report().last === {last}")
    tab.until("document.querySelector('.banner.lost').hidden")
    tab.errors = [error for error in tab.errors if "ERR_INTERNET_DISCONNECTED" not in error]


def test_whoever_follows_goes_over_to_the_engine_that_was_restarted(
    recording: tracing.Recording, new_tab: Callable[..., Tab]
) -> None:
    follows, looks_back, named = (new_tab() for _ in range(3))
    front = recording.recorder("api")
    toy = make_toy_run(recording.recorder("core"), front)
    toy.run(60)
    last = toy.core.scheduler.num_steps - 1
    recording.sync()
    for tab, asked in ((follows, ""), (looks_back, "?step=20"), (named, "?engine=0")):
        tab.replay(f"/replay/{NAME}{asked}")
        tab.until(f"window.cutaway.report().last === {last}")
    # The core is gone without a word; another one says hello, and has nothing to do.
    second = attach(recording.handle, "core")
    again = make_toy_run(second, front, seed=1)
    again.num_requests, again.clock.now = toy.num_requests, toy.clock.now + 1_000_000_000
    second.flush()
    recording.sync()
    for tab in (follows, looks_back, named):
        tab.until("document.querySelector('.badge').dataset.kind === 'ended'")
        assert f"ended at step {last}" in tab.page.inner_text(".banner.restart")
        assert tab.page.locator(".banner.restart a").is_hidden()
        assert tab.report()["engine"] == 0
    again.run(30)
    new_last = again.core.scheduler.num_steps - 1
    here = f"window.cutaway?.report()?.engine === 1 && window.cutaway.report().step === {new_last}"
    follows.until(here)
    follows.settled()
    assert follows.page.inner_text(".badge") == "Live"
    assert "this is the new one" in follows.page.inner_text(".banner.restart")
    assert follows.page.input_value("[data-do=engine]") == "1"
    compare_pool(follows, again)
    # Whoever looks at something else is told, and led there.
    go = "document.querySelector('.banner.restart a').getAttribute('href')"
    for tab in (looks_back, named):
        tab.until("!document.querySelector('.banner.restart a').hidden")
        assert tab.page.evaluate(go) == f"/replay/{NAME}?engine=1"
        assert tab.report()["engine"] == 0
        assert tab.report()["last"] == last
    looks_back.page.click(".banner.restart a")
    looks_back.until(here)
    named.page.keyboard.press("l")
    named.until(here)
    assert follows.page.evaluate(go) == f"/replay/{NAME}?engine=0"
    follows.page.click(".banner.restart a")
    follows.until("window.cutaway?.report()?.engine === 0")
    follows.until("document.querySelector('.badge')?.dataset.kind === 'ended'")
    follows.replay(f"/replay/{NAME}")
    follows.until(here)
    second.close()


def test_a_child_workbench_ends_with_its_block(environment: None) -> None:
    with web_process(port=0) as url:
        assert httpx.get(url, timeout=30).status_code == 200
    with pytest.raises(httpx.TransportError):
        httpx.get(url, timeout=5)


@pytest.mark.slow
def test_a_real_server_is_chatted_with_and_watched(
    tab: Tab, chat_model: Path, environment: None, home: Path, tmp_path: Path
) -> None:
    """`cutaway serve` with a tiny model: the start page finds it, the playground follows the request."""
    command = [sys.executable, "-m", "workbench.cli", "serve", "--model", str(chat_model)]
    command += ["--port", "0", "--num-blocks", "257", "--max-model-len", "512", "--record-tokens"]
    run_dir = home / "cutaway/runs/served"
    command += ["--run-dir", str(run_dir)]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
    try:
        tab.open("/")
        tab.until("document.querySelector('.server') !== null", seconds=120)
        tab.page.click(".server .button:nth-child(2)")
        tab.until("window.cutaway?.report('chat') !== null")
        tab.page.fill(".chat textarea", "Hello there")
        tab.page.keyboard.press("Enter")
        tab.until("window.cutaway.report('chat').followed !== null", seconds=60)
        tab.until("!window.cutaway.report('chat').busy", seconds=60)
        followed: Any = tab.page.evaluate("window.cutaway.report('chat').followed")
        tab.until("window.cutaway.report()?.state === 'ready'")
        tab.until(f"window.cutaway.report().req === {followed}")
        tab.until(f"window.cutaway.report().lives.includes({followed})")
        assert "tokens/s" in tab.page.inner_text(".chatlog")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)
        shutil.rmtree(run_dir, ignore_errors=True)
