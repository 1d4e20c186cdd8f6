"""A server alone, without a supervisor: starting, losing its core, stopping. No process or file is left."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from engine.errors import ConfigError, CutawayError
from engine.server import restarts
from engine.server.address import is_loopback, listen
from engine.server.link import CoreError
from engine.server.restarts import MAX_RESTARTS, WINDOW_S, Restarts
from tests.engine.server.conftest import MODEL, Server, is_alive, wait_for, wait_until_gone
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


def health(server: Server) -> tuple[int, str]:
    response = httpx.get(f"{server.url}/health", timeout=60)
    return response.status_code, response.json()["status"]


def test_a_killed_core_ends_requests_and_is_replaced(
    start_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "FIRST_DELAY_S", 2.0)  # time to look at what is said meanwhile
    # One sequence at a time: the second request never gets a token.
    server = start_server(max_num_seqs=1)
    ask = server.client().completions.create
    stream = iter(ask(model=MODEL, prompt="The", stream=True, **ENDLESS))
    first = next(stream)
    waiting = ask_elsewhere(server)
    wait_for(lambda: len(server.trace.records(Kind.REQUEST)) == 2, "the second request")
    dead_pid, dead = server.core_pid, server.ready
    assert dead is not None
    os.kill(dead_pid, signal.SIGKILL)
    with pytest.raises(openai.APIError, match=r"engine core died \(signal 9\)"):
        list(stream)
    assert waiting.communicate(timeout=60)[0].split() == ["503", "engine_lost", "1"]
    assert health(server) == (503, "restarting")
    with pytest.raises(openai.InternalServerError, match="engine core died") as refused:
        ask(model=MODEL, prompt="The", max_tokens=1)
    assert refused.value.response.headers["retry-after"] == "1"
    wait_for(lambda: health(server) == (200, "ok"), "a new core")
    assert server.core_pid != dead_pid
    assert server.num_starts == 2
    assert ask(model=MODEL, prompt="The", max_tokens=3).usage.completion_tokens > 0
    check_trace_of_a_lost_core(server, first.id, dead.proc_id)


def ask_elsewhere(server: Server) -> "subprocess.Popen[str]":
    """A request in another process, which says how it was answered."""
    code = (
        "import httpx, sys; r = httpx.post(sys.argv[1] + '/v1/completions', timeout=60,"
        " json={'prompt': 'What', 'stream': True});"
        " print(r.status_code, r.json()['error']['code'], r.headers['retry-after'])"
    )
    command = [sys.executable, "-c", code, server.url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def check_trace_of_a_lost_core(server: Server, answer_id: str, proc_id: int) -> None:
    ends = {end["request_id"]: end for end in server.trace.records(Kind.REQUEST_END)}
    asked = server.trace.records(Kind.REQUEST)
    [first] = [r for r in asked if answer_id.encode() in r["text"]]
    lost = ends[first["request_id"]]
    assert (lost["code"], lost["http_status"], lost["a0"]) == (Code.LOST_ENGINE, 200, 0)
    assert [ends[r["request_id"]]["code"] for r in asked[:2]] == [Code.LOST_ENGINE] * 2
    events = server.trace.records(Kind.EVENT)
    [died] = [e for e in events if e["code"] == Code.PROC_DIED]
    assert (died["a0"], died["a1"]) == (proc_id, signal.SIGKILL)
    [started] = [e for e in events if e["code"] == Code.PROC_STARTED]
    assert (started["a0"], started["a1"]) == (proc_id, 1), (
        "the test's recorder numbers all cores alike"
    )
    [span] = [
        s for s in server.trace.spans() if s.attributes.get("gen_ai.response.id") == answer_id
    ]
    assert span.attributes["error.type"] == "lost_engine"
    assert span.status.description == "the engine core died"
    starts = server.trace.spans("start engine")
    assert len(starts) == 2
    parts = {
        s.name
        for s in server.trace.spans()
        if s.parent and s.parent.span_id == starts[1].context.span_id
    }
    assert parts == {"start process", "plan memory", "load weights", "allocate KV pool"}
    metrics = httpx.get(f"{server.url}/metrics", timeout=60).text
    assert f'cutaway:engine_restarts_total{{model_name="{MODEL}"}} 1.0' in metrics
    assert f'cutaway:requests_total{{end="lost_engine",model_name="{MODEL}"}} 2.0' in metrics


def test_restarts_come_ever_later_and_end() -> None:
    now = 0.0
    deaths = Restarts(lambda: now)
    assert [deaths.next_delay() for _ in range(MAX_RESTARTS)] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert deaths.next_delay() is None
    assert deaths.num_restarts == MAX_RESTARTS
    now = 2 * WINDOW_S
    assert deaths.next_delay() == 0.5, "what is long ago is forgiven"


def test_a_core_that_cannot_be_kept_alive_ends_the_server(
    start_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "MAX_RESTARTS", 0)
    server = start_server()
    os.kill(server.core_pid, signal.SIGKILL)
    wait_for(lambda: server.error, "the end of the server")
    assert "giving up" in str(server.error)
    with pytest.raises(CoreError, match="engine core died"):
        server.stop()
    server.error = None  # seen
    with pytest.raises(httpx.ConnectError):
        health(server)


def test_an_engine_that_cannot_start_says_why(start_server: Callable[..., Server]) -> None:
    with pytest.raises(CutawayError, match="cannot hold one request"):
        start_server(num_blocks=9)
    with pytest.raises(
        CutawayError, match=r"the KV pool does not fit: .* available\. Lower num_blocks"
    ):
        start_server(num_blocks=10**9)
    with pytest.raises(CutawayError, match="no-such-model"):
        start_server(model="/tmp/no-such-model")


def test_a_taken_port_is_named_before_anything_is_loaded() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            listen(port=port)


def test_what_counts_as_this_machine() -> None:
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "a.localhost"):
        assert is_loopback(host), host
    for host in ("", "0.0.0.0", "::", "127.0.0.1.evil.com", "localhost.evil.com", "10.0.0.1"):
        assert not is_loopback(host), host


def test_stopping_drains_then_aborts(start_server: Callable[..., Server]) -> None:
    server = start_server()
    ask = server.client().completions.create
    stream = iter(ask(model=MODEL, prompt="The", stream=True, **ENDLESS))
    next(stream)
    server.ask_to_stop()
    wait_for(lambda: health(server) == (503, "shutting down"), "the drain")
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


def start_process(chat_model: Path, **environment: str) -> tuple["subprocess.Popen[str]", str, int]:
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
