"""`cutaway serve` as an operator meets it: processes are killed, signals sent, and nothing stays behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

import tracing
from engine.config import EngineConfig
from engine.server import restarts
from engine.server.address import listen
from engine.server.restarts import Restarts
from engine.server.settings import ServerSettings
from engine.server.supervisor import ApiSpec, EngineReady, ServerError, Supervisor
from tests.engine.server.conftest import is_alive, wait_for, wait_until_gone
from tracing.reader import Run
from tracing.runs import RECORDER_FILE, RunInfo
from workbench.serve import KeepRecorderAlive

MODEL = "tiny-chat"
ENDLESS: dict[str, Any] = {
    "model": MODEL,
    "prompt": "The",
    "stream": True,
    "max_tokens": 16000,
    "extra_body": {"ignore_eos": True},
}
SHORT = ENDLESS | {"stream": False, "max_tokens": 4}


@dataclass
class Serving:
    """A `cutaway serve` of its own process group, with its own folders."""

    process: "subprocess.Popen[str]"
    folder: Path
    url: str = ""

    @property
    def run_dir(self) -> Path:
        return self.folder / "run"

    @property
    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="unused", max_retries=0, timeout=60)

    def is_well(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=60).status_code == 200
        except httpx.TransportError:
            return False

    def said(self) -> str:
        return (self.folder / "log").read_text()

    def pids(self) -> list[int]:
        """Everything that runs below it, and itself."""
        return [self.process.pid, *descendants(self.process.pid)]

    def api_pid(self) -> int:
        found = [
            pid
            for pid in children(self.process.pid)
            if "spawn_main" in cmdline(pid)
            and any("spawn_main" in cmdline(c) for c in children(pid))
        ]
        return found[0]


def children(pid: int) -> list[int]:
    try:
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(c) for task in tasks for c in (task / "children").read_text().split()]
    except FileNotFoundError:
        return []


def descendants(pid: int) -> list[int]:
    found = children(pid)
    return found + [d for child in found for d in descendants(child)]


def cmdline(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except FileNotFoundError:
        return ""


@contextmanager
def serving(model: Path, folder: Path, *options: str) -> Iterator[Serving]:
    """Start it and wait until it is announced; whatever is left of it is killed at the end."""
    (folder / "tmp").mkdir()
    command = [sys.executable, "-m", "workbench.cli", "serve", "--model", str(model), "--port", "0"]
    command += ["--run-dir", str(folder / "run"), "--dtype", "float32", "--block-size", "8"]
    command += ["--num-blocks", "2049", "--max-model-len", "16384", *options]
    own = {"XDG_RUNTIME_DIR": str(folder), "TMPDIR": str(folder / "tmp"), "OMP_NUM_THREADS": "1"}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, text=True, start_new_session=True, env=os.environ | own
        )
    found = Serving(process, folder)
    try:
        file = folder / "cutaway" / f"{process.pid}.json"
        wait_for(lambda: file.exists() or process.poll() is not None, "the start")
        if file.exists():
            found.url = json.loads(file.read_text())["url"]
        yield found
    finally:
        left = found.pids()
        process.kill()
        process.wait()
        wait_until_gone(*left)


def check_nothing_is_left(server: Serving, pids: list[int]) -> None:
    """No process, no port, no file but the run; and the run is complete."""
    wait_until_gone(*pids)
    assert list((server.folder / "cutaway").iterdir()) == []
    assert list((server.folder / "tmp").iterdir()) == []
    port = int(server.url.rsplit(":", 1)[1])
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    names = {path.name for path in server.run_dir.iterdir() if path.suffix != ".spool"}
    assert names == {"run.json", "trace.duckdb", "recorder.log", "recorder.lock"}
    assert RunInfo.load(server.run_dir).state == "sealed"


def events(run: Run, name: str) -> list[tuple[Any, ...]]:
    return run.sql(
        f"SELECT a0, a1 FROM event JOIN reason USING (code) WHERE name = '{name}' ORDER BY ts_ns"
    ).rows


@pytest.fixture
def server(chat_model: Path, tmp_path: Path) -> Iterator[Serving]:
    with serving(chat_model, tmp_path, "--drain-timeout", "60") as found:
        yield found


def test_api_and_recorder_are_killed_and_replaced_and_a_drain_ends_it(server: Serving) -> None:
    ask = server.client.completions.create
    first = ask(**SHORT)
    kill_the_api(server)
    kill_the_recorder(server)
    stream = iter(ask(**ENDLESS | {"max_tokens": 200}))
    next(stream)
    pids = server.pids()
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: not server.is_well(), "the drain")
    reasons = [chunk.choices[0].finish_reason for chunk in stream]
    assert reasons[-1] == "length", "what is open may finish"
    assert server.process.wait(timeout=60) == 0
    check_nothing_is_left(server, pids)
    run = tracing.open_run(server.run_dir)
    roles = run.sql("SELECT role, count(*) FROM proc GROUP BY 1").rows
    assert dict(roles) == {"supervisor": 1, "api": 2, "core": 2}
    numbers = [
        row[0] for row in run.sql("SELECT proc_id FROM proc WHERE role = 'api' ORDER BY 1").rows
    ]
    assert events(run, "PROC_DIED") == [(numbers[0], 9), (None, 9)]
    assert events(run, "PROC_STARTED") == [(numbers[1], 1), (None, 1)]
    ends = run.sql(
        "SELECT e.code FROM request LEFT JOIN request_end e USING (request_id) ORDER BY arrival_ns"
    ).rows
    assert [code for (code,) in ends] == [804, 833, 804, 804, 804], "lost with the API: interrupted"
    engines = run.sql("SELECT DISTINCT engine_id FROM step_request ORDER BY 1").rows
    assert len(engines) == 2
    assert run.sql("SELECT sum(lost_records) FROM ingest").rows == [(0,)]
    assert run.sql("SELECT count(*) FROM request WHERE external_id = '" + first.id + "'").rows == [
        (1,)
    ]


def kill_the_api(server: Serving) -> None:
    """An open stream breaks, the port stays, new requests work, and the old core is gone."""
    stream = iter(server.client.completions.create(**ENDLESS))
    next(stream)
    api = server.api_pid()
    below = descendants(api)
    os.kill(api, signal.SIGKILL)
    with pytest.raises(openai.APIError):
        list(stream)
    wait_for(server.is_well, "a new API process")
    wait_until_gone(*below)
    answer = server.client.completions.create(**SHORT)
    assert answer.usage.completion_tokens == 4


def kill_the_recorder(server: Serving) -> None:
    """Serving goes on, and another recorder goes on with the run."""
    said = json.loads((server.run_dir / RECORDER_FILE).read_text())
    os.kill(said["pid"], signal.SIGKILL)
    answer = server.client.completions.create(**SHORT)
    assert answer.usage.completion_tokens == 4

    def another() -> bool:
        return bool(json.loads((server.run_dir / RECORDER_FILE).read_text())["pid"] != said["pid"])

    wait_for(another, "a new recorder")


def test_ctrl_c_twice_ends_it_at_once(server: Serving) -> None:
    stream = iter(server.client.completions.create(**ENDLESS))
    next(stream)
    pids = server.pids()
    os.killpg(server.process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    wait_for(lambda: not server.is_well(), "the drain")
    assert server.process.poll() is None, "it drains for a minute"
    os.killpg(server.process.pid, signal.SIGINT)
    assert list(stream)[-1].choices[0].finish_reason == "abort"
    assert server.process.wait(timeout=30) == 0
    check_nothing_is_left(server, pids)


def test_nothing_outlives_a_killed_supervisor(server: Serving) -> None:
    stream = iter(server.client.completions.create(**ENDLESS))
    next(stream)
    pids = server.pids()
    assert len(pids) >= 4
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    assert list(stream)[-1].choices[0].finish_reason == "abort"
    check_nothing_is_left(server, pids)


def test_a_start_that_fails_says_why_and_leaves_nothing(chat_model: Path, tmp_path: Path) -> None:
    with serving(chat_model, tmp_path, "--num-blocks", "9") as server:
        assert server.process.wait(timeout=60) == 1
        said = " ".join(server.said().split())
        assert "cannot hold one request of max_model_len 16384: give more KV memory" in said
        assert "Traceback" not in said
        assert not (tmp_path / "cutaway").exists()
        assert list((tmp_path / "tmp").iterdir()) == []
        assert RunInfo.load(server.run_dir).state == "sealed"


def test_an_api_that_keeps_dying_is_given_up(
    chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "MAX_RESTARTS", 1)
    monkeypatch.setattr(restarts, "FIRST_DELAY_S", 0.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    config = EngineConfig(model=str(chat_model), dtype="float32", num_blocks=65, max_model_len=512)
    seen: list[EngineReady] = []

    def kill(found: EngineReady) -> None:
        seen.append(found)
        threading.Thread(target=os.kill, args=(found.api_pid, signal.SIGKILL)).start()

    with listen(port=0) as listener:
        spec = ApiSpec(config=config, settings=ServerSettings())
        with pytest.raises(ServerError, match="died 2 times in a row"):
            Supervisor(spec, listener, on_ready=kill).run()
    assert len(seen) == 2
    wait_until_gone(*(found.core_pid for found in seen))
    assert not any(is_alive(found.api_pid) for found in seen)


def test_an_api_that_is_killed_with_all_below_it_leaves_no_folder(server: Serving) -> None:
    pids = server.pids()
    api = server.api_pid()
    for pid in (api, *descendants(api)):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(api), "its death")
    wait_for(server.is_well, "a new API process")
    assert len(list((server.folder / "tmp").iterdir())) == 1, "the new one's"
    pids += server.pids()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=60) == 0
    check_nothing_is_left(server, pids)


def test_a_wish_to_stop_is_heard_while_it_waits_for_a_new_start(
    chat_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "FIRST_DELAY_S", 10_000.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    config = EngineConfig(model=str(chat_model), dtype="float32", num_blocks=65, max_model_len=512)
    seen: list[EngineReady] = []

    def kill(found: EngineReady) -> None:
        seen.append(found)
        os.kill(found.api_pid, signal.SIGKILL)

    def ask() -> None:
        if seen and not is_alive(seen[0].api_pid):
            os.kill(os.getpid(), signal.SIGTERM)

    with listen(port=0) as listener:
        spec = ApiSpec(config=config, settings=ServerSettings())
        Supervisor(spec, listener, on_ready=kill, tick=ask).run()
    assert len(seen) == 1
    wait_until_gone(seen[0].core_pid)


def test_a_recorder_that_keeps_dying_is_given_up_and_the_run_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "MAX_RESTARTS", 2)
    monkeypatch.setattr(restarts, "FIRST_DELAY_S", 0.0)
    with tracing.start(tmp_path / "run") as trace:
        keep = KeepRecorderAlive(trace, Restarts())
        killed: set[int] = set()
        while len(killed) < 3:
            wait_for(lambda: recorder_pid(tmp_path / "run") not in killed | {0}, "a recorder")
            pid = recorder_pid(tmp_path / "run")
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
            wait_for(partial(has_seen, keep, len(killed)), "its death to be seen")
        assert recorder_pid(tmp_path / "run") in killed, "nobody came after the third"
    run = tracing.open_run(tmp_path / "run")
    assert events(run, "PROC_DIED") == [(None, 9)] * 3
    assert events(run, "PROC_STARTED") == [(None, 1), (None, 2)]


def has_seen(keep: KeepRecorderAlive, num_deaths: int) -> bool:
    """That so many have died; and what follows from the last death is done."""
    keep()
    return keep.num_deaths == num_deaths and keep.start_at is None


def recorder_pid(run_dir: Path) -> int:
    """0: none has said so yet."""
    file = run_dir / RECORDER_FILE
    return int(json.loads(file.read_text())["pid"]) if file.exists() else 0


def test_what_a_server_would_be_is_shown_against_each_preset(
    chat_model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "workbench.cli", "serve", "--show-config", "--model"]
    command += [str(chat_model), "--policy", "sglang", "--max-num-seqs", "7", "--api-key", "hush"]
    own = {"COLUMNS": "200", "CUTAWAY_API_KEY": ""}
    subprocess.run(command, check=True, env=os.environ | own, timeout=120)
    shown = capfd.readouterr().out
    rows = [line.split("  ") for line in shown.splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert ["max_num_seqs", "7", "128"] in cells
    assert ["max_num_seqs", "7", "128", "set for this server"] in cells
    assert [row[:3] for row in cells if row[:1] == ["cache"]][1:] == [
        ["cache", "radix", "hash"],
        ["cache", "radix", "hash"],
    ], "against vllm and static; sglang has the same"
    assert "vLLM 0.33.0" in shown
    assert "SGLang 0.5.23  (chosen)" in shown
    assert "upstream: gpu_memory_utilization 0.92" in shown
    assert "at every start" in shown
    assert "hush" not in shown


def test_another_host_without_a_key_is_warned_of(chat_model: Path, tmp_path: Path) -> None:
    with serving(chat_model, tmp_path, "--host", "0.0.0.0", "--num-blocks", "9") as server:
        server.process.wait(timeout=60)
        assert "warning: 0.0.0.0 can be reached from other machines" in server.said()
