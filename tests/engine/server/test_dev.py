"""Holding a real server's engine still over HTTP."""

import json
import threading
from typing import Any

import httpx
import pytest

from engine.server.settings import ServerSettings
from tests.engine.server.conftest import MODEL, Server, StartServer
from tracing.record import Code, Kind

KEY = "a key"


@pytest.fixture(scope="module")
def dev(start_server: StartServer) -> Server:
    return start_server(None, ServerSettings(dev=True, api_key=KEY), max_num_seqs=4)


def call(server: Server, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    if body is None:
        return httpx.get(f"{server.url}{path}", headers=headers, timeout=30, trust_env=False)
    content = json.dumps(body)
    return httpx.post(
        f"{server.url}{path}", headers=headers, content=content, timeout=30, trust_env=False
    )


def post(server: Server, path: str, **body: Any) -> dict[str, Any]:
    answer = call(server, path, body)
    assert answer.status_code == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


class Chat:
    """A chat in a thread of its own; with a key."""

    def __init__(self, server: Server, max_tokens: int = 6) -> None:
        self.answer: httpx.Response | None = None
        self._server, self._max_tokens = server, max_tokens
        self._thread = threading.Thread(target=self._send)
        self._thread.start()

    def _send(self) -> None:
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": self._max_tokens,
            "ignore_eos": True,
        }
        self.answer = call(self._server, "/v1/chat/completions", body)

    @property
    def is_open(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> httpx.Response:
        self._thread.join(60)
        assert self.answer is not None
        return self.answer


def wait_until_stopped(server: Server) -> dict[str, Any]:
    for _ in range(600):
        state = call(server, "/dev/state").json()
        if state["paused"]:
            found: dict[str, Any] = state
            return found
        threading.Event().wait(0.05)
    raise AssertionError("it never stopped")


def test_it_is_offered_with_dev_only_and_needs_the_key(
    dev: Server, start_server: StartServer
) -> None:
    plain = start_server(None, ServerSettings())
    assert httpx.get(f"{plain.url}/dev/state", trust_env=False).status_code == 404
    assert httpx.get(f"{dev.url}/dev/state", trust_env=False).status_code == 401
    assert call(dev, "/dev/state").json()["paused"] is False
    described = call(dev, "/openapi.json").json()["paths"]
    assert {"/dev/pause", "/dev/step", "/dev/breakpoint/remove"} <= described.keys()


def test_paused_nobody_is_answered_and_steps_go_one_by_one(dev: Server) -> None:
    before = post(dev, "/dev/pause")["next_step"]
    chat = Chat(dev, max_tokens=5)
    try:
        threading.Event().wait(0.3)
        assert chat.is_open
        for i in range(3):
            assert post(dev, "/dev/step", steps=1)["paused"] is True
            wait_for_step(dev, before + i + 1)
        assert chat.is_open
    finally:
        post(dev, "/dev/resume")
    assert chat.wait().json()["usage"]["completion_tokens"] == 5
    codes = [event["code"] for event in dev.core_records(Kind.EVENT)]
    assert Code.PAUSE in codes
    assert Code.RESUME in codes


def wait_for_step(server: Server, step: int) -> None:
    for _ in range(600):
        if call(server, "/dev/state").json()["next_step"] >= step:
            return
        threading.Event().wait(0.02)
    raise AssertionError("the step never ran")


def test_a_breakpoint_tells_the_plan_and_an_abort_goes_through_meanwhile(dev: Server) -> None:
    chat = Chat(dev)
    chat.wait()
    added = post(dev, "/dev/breakpoint", when="free < 2000000")
    number = added["breakpoints"][-1]["id"]
    chat = Chat(dev, max_tokens=50)
    state = wait_until_stopped(dev)
    try:
        assert state["stopped_by"] == "free < 2000000"
        (row,) = state["plan"]["rows"]
        assert row["code"] == Code.ADMIT_NEW
        assert call(dev, "/dev/abort", {"request": 99_999}).status_code == 404
        post(dev, "/dev/abort", request=row["request_id"])
        assert chat.wait().status_code == 200  # ended, and says so
    finally:
        left = post(dev, "/dev/breakpoint/remove", id=number)["breakpoints"]
        post(dev, "/dev/resume")
    assert number not in [point["id"] for point in left]


def test_knobs(dev: Server) -> None:
    assert post(dev, "/dev/knob", name="max_num_seqs", value=2)["knobs"]["max_num_seqs"] == 2
    refused = call(dev, "/dev/knob", {"name": "max_num_seqs", "value": 5})
    assert refused.status_code == 400
    assert "1 to 4" in refused.json()["error"]["message"]
    assert post(dev, "/dev/knob", name="max_num_seqs", value=4)["knobs"]["max_num_seqs"] == 4
    assert call(dev, "/dev/knob", {"name": "max_num_seqs"}).status_code == 400
    assert call(dev, "/dev/breakpoint", {"when": "lunch"}).status_code == 400


def test_numbers_beyond_reason_are_refused_and_break_nothing(dev: Server) -> None:
    for path, body in (
        ("/dev/knob", {"name": "max_num_seqs", "value": 10**30}),
        ("/dev/breakpoint", {"when": "free < " + "9" * 5000}),
        ("/dev/breakpoint", {"when": "free < " + "9" * 40}),
        ("/dev/breakpoint/remove", {"id": 2**63}),
        ("/dev/abort", {"request": 10**30}),
    ):
        assert call(dev, path, body).status_code == 400, path
    assert call(dev, "/dev/state").json()["paused"] is False
