"""Where running servers are announced."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.servers import RunningServer, announced, announcement, running_servers


def test_dead_servers_are_forgotten_and_other_files_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here = RunningServer(os.getpid(), "http://127.0.0.1:1", "tiny", None)
    with announced(here):
        for pid, text in ((ended.pid, '{"pid": 1}'), (os.getpid() + 1, "torn")):
            announcement(pid).write_text(text)
        progress = (
            tmp_path / "cutaway" / "drill.json"
        )  # the runtime folder is the data folder of some
        progress.write_text("{}")
        assert running_servers() == [here]
        assert progress.exists()
        assert not announcement(ended.pid).exists()
    assert running_servers() == []
