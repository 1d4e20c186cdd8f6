"""`cutaway top` in a real terminal, on a real server under load."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.workbench.test_serve import Serving, children, cmdline, serving
from tracing.runs import RECORDER_FILE

SOAK_S = float(os.environ.get("CUTAWAY_SOAK_S", "600"))
pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None, reason="needs tmux: apt-get install tmux"
)


class Load:
    """Clients that ask without end."""

    def __init__(self, server: Serving, num_clients: int, pause_s: float = 0.0) -> None:
        self._server, self._pause_s = server, pause_s
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(i,)) for i in range(num_clients)]
        for thread in self._threads:
            thread.start()

    def _ask(self, number: int) -> None:
        client, turn = self._server.client, 0
        while not self._stop.wait(self._pause_s):
            turn += 1
            body: dict[str, Any] = {"model": "tiny-chat", "max_tokens": 40 + 7 * (turn % 5)}
            prompt = f"The quick brown fox {number} " * (3 + number) + str(turn)
            try:
                client.completions.create(prompt=prompt, extra_body={"ignore_eos": True}, **body)
            except Exception:  # the engine was killed under it: that is what one test does
                self._stop.wait(0.2)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(90)


class Terminal:
    """A tmux session of its own server."""

    def __init__(self, folder: Path, command: list[str], env: dict[str, str]) -> None:
        self._socket = str(folder / "tmux")
        words = [f"{name}={value}" for name, value in env.items()]
        unset = ["-u", "COLUMNS", "-u", "LINES"]  # the terminal itself says how large it is
        line = " ".join(["exec", "env", *unset, *words, *command])
        self._tmux("new-session", "-d", "-x", "120", "-y", "36", line)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, "-f", "/dev/null", *words],
            capture_output=True,
            text=True,
            timeout=20,
        )
        return done.stdout

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        for key in keys:
            self._tmux("send-keys", key)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)
        self._tmux("send-keys", "Enter")

    def wait_for(self, what: str, test: Callable[[str], Any], seconds: float = 60) -> str:
        deadline = time.monotonic() + seconds
        while True:
            seen = self.screen()
            if test(seen):
                return seen
            assert time.monotonic() < deadline, f"{what} never came:\n{seen}"
            time.sleep(0.1)

    def pid(self) -> int:
        return int(self._tmux("list-panes", "-F", "#{pane_pid}"))

    def step(self) -> int:
        found = re.search(r"step\s+([\d,]+)", self.screen())
        assert found, self.screen()
        return int(found[1].replace(",", ""))

    def close(self) -> None:
        self._tmux("kill-server")


def own_env(folder: Path) -> dict[str, str]:
    return {
        "XDG_RUNTIME_DIR": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "OMP_NUM_THREADS": "1",
    }


@contextmanager
def terminal(folder: Path, *words: str) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "workbench.cli", "top", *words]
    found = Terminal(folder, command, own_env(folder))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def server(chat_model: Path, tmp_path: Path) -> Iterator[Serving]:
    options = ["--dev", "--num-blocks", "80", "--max-num-seqs", "8", "--max-model-len", "512"]
    options += ["--max-num-batched-tokens", "256", "--drain-timeout", "1"]
    with serving(chat_model, tmp_path, *options) as found:
        assert found.url, found.said()
        yield found


@pytest.fixture
def load(server: Serving) -> Iterator[Load]:
    clients = Load(server, 6, pause_s=0.4)
    yield clients
    clients.stop()


def test_from_finding_the_server_to_its_end(server: Serving, load: Load, tmp_path: Path) -> None:
    with terminal(tmp_path) as t:
        t.wait_for("live", lambda s: "LIVE" in s and "running" in s and "Steps" in s)
        before = t.step()
        t.wait_for("more steps", lambda s: t.step() > before + 5)
        for key, word in (
            ("2", "of 8 seats"),
            ("3", "79 blocks of 8 tokens"),
            ("4", "out/max"),
            ("5", "Why, in order"),
            ("6", "admit"),
            ("?", "Engine, with --dev"),
            ("1", "Latency"),
        ):
            t.press(key)
            t.wait_for(word, lambda s, word=word: word in s)  # type: ignore[misc]
        look_back(t)
        hold_still(t)
        send_a_prompt(t)
        load.stop()
        server.process.send_signal(signal.SIGTERM)
        t.wait_for("the replay", lambda s: "REPLAY" in s and "the run has ended" in s)
        t.press("g")
        t.wait_for("its first step", lambda s: t.step() == 0)
        t.press("q")


@pytest.mark.slow
def test_core_and_recorder_may_die_under_it(server: Serving, load: Load, tmp_path: Path) -> None:
    with terminal(tmp_path, server.url) as t:
        t.wait_for("live", lambda s: "LIVE" in s and "running" in s and "Steps" in s)
        lose_the_core(t, server)
        lose_the_recorder(t, server)
        t.press("q")


def look_back(t: Terminal) -> None:
    """Freezing is the viewer's business: the engine runs on."""
    t.press("Space")
    t.wait_for("paused", lambda s: "PAUSED" in s)
    frozen = t.step()
    t.wait_for("newer steps", lambda s: re.search(r"newer steps: [1-9]", s))
    assert t.step() == frozen
    t.press("Left")
    t.wait_for("the step before", lambda s: t.step() == frozen - 1)
    t.press("G")
    t.wait_for("live again", lambda s: "LIVE" in s and t.step() > frozen)


def hold_still(t: Terminal) -> None:
    """With --dev the engine itself stands, goes one step, and goes on."""
    t.press("P")
    t.wait_for("held", lambda s: "HELD" in s)
    time.sleep(1.0)  # what was under way arrives
    before = t.step()
    t.press("O")
    t.wait_for("one step", lambda s: t.step() == before + 1)
    answer(t, "B", "Stop before a step", "free < 79")
    t.press("P")
    t.wait_for("a held plan", lambda s: "stopped before step" in s and "free < 79" in s)
    t.press("2")
    t.wait_for("the plan", lambda s: "it has not run" in s)
    answer(t, "B", "1: free < 79", "1")
    t.press("P", "1")
    t.wait_for("live again", lambda s: "LIVE" in s)


def answer(t: Terminal, key: str, asked: str, text: str) -> None:
    """Open a dialog, type into it, and wait until it has gone."""
    t.press(key)
    t.wait_for(asked, lambda s: asked in s)
    t.type(text)
    t.wait_for("its end", lambda s: asked not in s)


def send_a_prompt(t: Terminal) -> None:
    answer(t, "i", "Send a prompt to", "Hello there")
    t.wait_for("the request", lambda s: "Answer" in s and "Why, in order" in s)
    t.press("Escape")
    t.wait_for("the way back", lambda s: "Latency" in s)


def lose_the_core(t: Terminal, server: Serving) -> None:
    """A core that is killed is replaced; its steps count from 0, and the picture goes on with them."""
    (core,) = (pid for pid in children(server.api_pid()) if "spawn_main" in cmdline(pid))
    os.kill(core, signal.SIGKILL)
    t.wait_for("word of it", lambda s: "another one works" in s)
    t.wait_for("its steps", lambda s: "LIVE" in s and re.search(r"step +[1-9]", s) and "▲" in s)


def lose_the_recorder(t: Terminal, server: Serving) -> None:
    """A recorder that is killed is replaced; the screen says so, and goes on by itself."""
    said = json.loads((server.run_dir / RECORDER_FILE).read_text())
    os.kill(said["pid"], signal.SIGKILL)
    t.wait_for("lost", lambda s: "LOST" in s or "trying again" in s)
    before = t.step()
    t.press("1")
    t.wait_for("live again", lambda s: "LIVE" in s and t.step() > before)


@pytest.mark.slow
@pytest.mark.timeout(int(SOAK_S) + 300)
def test_it_watches_for_ten_minutes_without_growing(server: Serving, tmp_path: Path) -> None:
    """All screens in turn, freezing and going on, while requests come and go."""
    clients = Load(server, 6, pause_s=0.1)
    try:
        with terminal(tmp_path) as t:
            t.wait_for("live", lambda s: "LIVE" in s and "Steps" in s)
            sizes = watch_memory(t)
            t.press("1")
            last = t.wait_for("live still", lambda s: "LIVE" in s and "Latency" in s)
    finally:
        clients.stop()
    fifth = len(sizes) // 5
    before, end = sum(sizes[-2 * fifth : -fifth]) / fifth, sum(sizes[-fifth:]) / fifth
    tenths = [round(size, 1) for size in sizes[:: len(sizes) // 10 or 1]]
    print(
        f"\nviewer: {before:.1f} MiB in the fourth fifth, {end:.1f} in the last; {tenths}\n{last}"
    )
    # Each thread that loads a history keeps its memory for the next one, so it rises in steps at first.
    assert end < 1.03 * before + 2, "the viewer grows"
    assert end < 200


def watch_memory(t: Terminal) -> list[float]:
    """Use it, and look at its resident memory every second, in MiB."""
    pid, mib = t.pid(), os.sysconf("SC_PAGE_SIZE") / 2**20
    assert b"top" in Path(f"/proc/{pid}/cmdline").read_bytes()
    keys = (
        "1",
        "2",
        "Down",
        "3",
        "Right",
        "h",
        "4",
        "s",
        "Enter",
        "Escape",
        "5",
        "n",
        "6",
        "Up",
        "?",
    )
    sizes: list[float] = []
    until = time.monotonic() + SOAK_S
    while time.monotonic() < until:
        turn = len(sizes)
        if turn % 4 == 0:
            t.press(keys[turn // 4 % len(keys)])
        if turn % 30 in (20, 23):  # a frozen view comes back by a fresh keyframe
            t.press("Space")
        sizes.append(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * mib)
        time.sleep(1)
    return sizes


def test_scripts_get_a_plain_summary(server: Serving, load: Load, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workbench.cli", "top"]
    env = os.environ | own_env(tmp_path)

    def run(*words: str) -> str:
        done = subprocess.run(
            [*command, *words], capture_output=True, text=True, env=env, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout
        return done.stdout

    while (json.loads(run("--json"))["step"] or 0) < 3:
        time.sleep(0.2)
    lines = run("--once", server.url).splitlines()
    assert lines[0].startswith("cutaway  run ")
    assert max(map(len, lines)) <= 80
    assert run(server.url).startswith("cutaway  run "), "piped, it is --once"
    said = json.loads(run("--json", str(server.run_dir)))
    assert said["live"] is True
    assert said["policy"] == "vllm"
    assert said["requests"]["max"] == 8


def test_a_server_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    for words in (["--once"], ["http://127.0.0.1:9"], ["no-such-run"]):
        done = subprocess.run(
            [sys.executable, "-m", "workbench.cli", "top", *words],
            capture_output=True,
            text=True,
            env=os.environ | own_env(tmp_path),
            timeout=120,
        )
        assert done.returncode == 1
        assert "error:" in done.stderr
        assert "Traceback" not in done.stderr
