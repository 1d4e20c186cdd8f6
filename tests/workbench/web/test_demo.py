"""`cutaway demo` as a person starts it: its page opens while traffic comes in, Ctrl-C leaves nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.workbench.web.conftest import Tab

DRIVER = """import sys; from pathlib import Path; import workbench.demo as demo
demo.MODEL = sys.argv[1]; demo.ensure_model = lambda *_: Path(sys.argv[1])
demo.ENGINE |= {"--max-model-len": 16384, "--num-blocks": 1100}
demo.demo([])"""
"""The demo with a model that is here already, and tiny: a token of it is hardly more than a letter."""


def said(log: Path, pattern: str, process: "subprocess.Popen[bytes]") -> "re.Match[str]":
    """Wait until the demo has said something."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if found := re.search(pattern, log.read_text()):
            return found
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(log.read_text())


@pytest.mark.slow
def test_the_demo_is_watched_while_it_runs_and_leaves_nothing_behind(
    tab: Tab, chat_model: Path, environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))  # its run is nobody else's business
    log = tmp_path / "log"
    with log.open("w") as out:
        demo = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(chat_model)],
            stdout=out, stderr=out, process_group=0, env=os.environ | {"COLUMNS": "200"},
        )  # fmt: skip
    try:
        print(log)
        page = said(log, r"(http://\S+/replay/\S+)  watch", demo)[1]
        tab.page.goto(page)
        tab.until("window.cutaway?.report()?.state === 'ready'", seconds=30)
        assert tab.page.inner_text(".badge") == "Live"
        said(log, r"Serving at", demo)
        seen: Any = tab.report()["last"]
        assert seen > 0
        told = {**json.loads(httpx.get(page.split("/replay")[0] + "/data/servers").text)[0]}
        os.kill(demo.pid, signal.SIGINT)
        assert demo.wait(90) == 0, log.read_text()
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)
            demo.wait()
    for gone in (page, told["url"]):
        with pytest.raises(httpx.TransportError):
            httpx.get(gone, timeout=5)
    (run,) = (tmp_path / "cutaway/runs").iterdir()
    assert json.loads((run / "run.json").read_text())["state"] == "sealed"
    assert not list(Path(os.environ["XDG_RUNTIME_DIR"]).glob("cutaway/*.json"))
    tab.errors = [error for error in tab.errors if "ERR_" not in error]  # the workbench has ended
