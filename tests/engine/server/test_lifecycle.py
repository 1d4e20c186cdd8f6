"""Starting, dying and stopping: errors are seen, requests end, no process is left."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from engine.errors import ConfigError
from engine.server.link import CoreError
from engine.server.run import listen
from tests.engine.server.conftest import MODEL, Server
from tracing.record import Code, Kind

ENDLESS: dict[str, Any] = {"max_tokens": 16000, "extra_body": {"ignore_eos": True}}
SERVE = """
import sys
from engine.config import EngineConfig
from engine.server.run import serve

config = EngineConfig(
    model=sys.argv[1], dtype="float32", num_blocks=2049, block_size=8, max_model_len=16384
)
serve(config, port=0, on_ready=lambda url, ready, core_pid: print(url, core_pid, flush=True))
print("stopped", flush=True)
"""


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pid: int) -> None:
    end = time.monotonic() + 30
    while is_alive(pid):
        assert time.monotonic() < end, f"process {pid} was left behind"
        time.sleep(0.02)


def test_a_killed_core_ends_requests_and_health(start_server: Callable[..., Server]) -> None:
    server = start_server()
    ask = server.client().completions.create
    stream = iter(ask(model=MODEL, prompt="The", stream=True, **ENDLESS))
    first = next(stream)
    os.kill(server.core_pid, signal.SIGKILL)
    with pytest.raises(openai.APIError, match=r"engine core died \(signal 9\)"):
        list(stream)
    with pytest.raises(openai.InternalServerError, match="engine core died") as refused:
        ask(model=MODEL, prompt="The", max_tokens=1)
    assert refused.value.status_code == 503
    health = httpx.get(f"{server.url}/health", timeout=60)
    assert (health.status_code, health.json()["status"]) == (503, "failed")
    ends = {end["request_id"]: end for end in server.trace.records(Kind.REQUEST_END)}
    [asked] = [r for r in server.trace.records(Kind.REQUEST) if first.id.encode() in r["text"]]
    lost = ends[asked["request_id"]]
    assert (lost["code"], lost["http_status"]) == (Code.LOST_ENGINE, 200)
    [died] = [e for e in server.trace.records(Kind.EVENT) if e["code"] == Code.PROC_DIED]
    assert died["a1"] == signal.SIGKILL


def test_a_waiting_request_gets_503_when_the_core_dies(start_server: Callable[..., Server]) -> None:
    # One sequence at a time: the second request never gets a token.
    server = start_server(max_num_seqs=1)
    ask = server.client().completions.create
    running = iter(ask(model=MODEL, prompt="The", stream=True, **ENDLESS))
    next(running)
    code = (
        "import httpx, sys; r = httpx.post(sys.argv[1] + '/v1/completions', timeout=60,"
        " json={'prompt': 'What', 'stream': True}); print(r.status_code, r.json()['error']['code'])"
    )
    waiting = subprocess.Popen(
        [sys.executable, "-c", code, server.url], stdout=subprocess.PIPE, text=True
    )
    while len(server.trace.records(Kind.REQUEST)) < 2:
        time.sleep(0.01)
    os.kill(server.core_pid, signal.SIGKILL)
    out, _ = waiting.communicate(timeout=60)
    assert out.split() == ["503", "engine_lost"]


def test_a_core_that_cannot_start_says_why(start_server: Callable[..., Server]) -> None:
    with pytest.raises(CoreError, match="cannot hold one request"):
        start_server(num_blocks=9)
    with pytest.raises(CoreError, match="no-such-model"):
        start_server(model="/tmp/no-such-model")


def test_a_taken_port_is_named_before_anything_is_loaded() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            listen(port=port)


def test_stopping_drains_then_aborts(start_server: Callable[..., Server]) -> None:
    server = start_server()
    ask = server.client().completions.create
    stream = iter(ask(model=MODEL, prompt="The", stream=True, **ENDLESS))
    next(stream)
    server.ask_to_stop()
    end = time.monotonic() + 30
    while httpx.get(f"{server.url}/health", timeout=60).status_code == 200:
        assert time.monotonic() < end
    with pytest.raises(openai.InternalServerError, match="shutting down"):
        ask(model=MODEL, prompt="The", max_tokens=1)
    next(stream)  # what is open goes on
    server.ask_to_stop()  # asked twice: now
    assert list(stream)[-1].choices[0].finish_reason == "abort"
    wait_until_gone(server.core_pid)
    codes = [e["code"] for e in server.trace.records(Kind.REQUEST_END)]
    assert Code.ABORT_SHUTDOWN in codes
    assert Code.DRAIN in [e["code"] for e in server.trace.records(Kind.EVENT)]
    assert server.core_records(Kind.BYE), "the core closed its recorder"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_server_and_core(
    chat_model: Path, number: signal.Signals, tmp_path: Path
) -> None:
    process, url, core_pid = start_process(chat_model, TMPDIR=str(tmp_path))
    try:
        client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=60)
        stream = iter(client.completions.create(model=MODEL, prompt="The", stream=True, **ENDLESS))
        next(stream)
        # As a terminal does: to the whole group. The core must not take it for itself.
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        next(stream)
        process.send_signal(number)
        assert list(stream)[-1].choices[0].finish_reason == "abort"
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, out.strip(), err) == (0, "stopped", "")
    assert list(tmp_path.iterdir()) == [], "the socket's folder is gone"
    wait_until_gone(core_pid)


def test_a_core_does_not_outlive_a_killed_server(chat_model: Path, tmp_path: Path) -> None:
    process, _, core_pid = start_process(chat_model, TMPDIR=str(tmp_path))
    try:
        assert is_alive(core_pid)
    finally:
        process.kill()
    process.communicate(timeout=60)
    wait_until_gone(core_pid)
    assert list(tmp_path.iterdir()) == []


def start_process(chat_model: Path, **environment: str) -> tuple[subprocess.Popen[str], str, int]:
    """`serve` in a process group of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(chat_model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | environment,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    url, core_pid = line.split()
    return process, url, int(core_pid)
