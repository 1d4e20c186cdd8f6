"""What the screen makes of a server's answers about being held: a small server says what it is told to."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.workbench.tui.conftest import drive, top
from tracing.errors import TraceError
from workbench.tui.app import TopApp
from workbench.tui.command import top as command
from workbench.tui.mode import Mode
from workbench.tui.session import Session
from workbench.tui.source import (
    RecorderElsewhereError,
    ServerStartingError,
    Source,
    find_source,
)

HELD: dict[str, Any] = {"paused": True, "next_step": 7, "stopped_by": None, "plan": None}
FREE = HELD | {"paused": False}


class Server(ThreadingHTTPServer):
    """Answers with `status` and `body`, and keeps what was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.body = 200, HELD
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        known = self.path.startswith("/dev/") or self.path == "/health"
        text = json.dumps(self.server.body).encode()
        self.send_response(self.server.status if known else 404)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


@pytest.fixture
def app(server: Server) -> TopApp:
    def nothing() -> Any:
        raise TraceError("nobody records")

    source = Source("here", 0, True, lambda: None, nothing, server_url=server.url)
    found = TopApp(source)
    found.desk.session.mode = Mode.LIVE
    return found


def look(app: TopApp) -> Session:
    asyncio.run(app.steering.look())
    return app.desk.session


def test_one_failed_look_is_not_the_last(server: Server, app: TopApp) -> None:
    server.status = 500
    assert look(app).mode is Mode.LIVE
    server.status = 200
    assert look(app).mode is Mode.HELD
    server.status = 503
    assert look(app).mode is Mode.HELD
    server.status, server.body = 200, FREE
    assert look(app).mode is Mode.LIVE


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_does_not_let_itself_be_asked_is_asked_once(
    server: Server, app: TopApp, status: int
) -> None:
    server.status = status
    for _ in range(3):
        look(app)
    assert server.asked == ["GET /dev/state"]


def test_a_frozen_view_knows_that_the_engine_stands(server: Server, app: TopApp) -> None:
    session = look(app)
    session.freeze()
    assert session.mode is Mode.PAUSED
    assert session.is_held
    asyncio.run(app.steering.pause_or_resume())
    assert server.asked[-1] == "POST /dev/resume"
    server.body = FREE
    look(app)
    assert not session.is_held
    asyncio.run(app.steering.pause_or_resume())
    assert server.asked[-1] == "POST /dev/pause"
    server.body = HELD
    assert look(app).mode is Mode.PAUSED, "the view stands by its own"


def test_an_address_may_be_written_in_many_ways(server: Server) -> None:
    port = server.server_port
    for typed in (f"localhost:{port}", f":{port}", f"{server.url}/v1", f"http://localhost:{port}/"):
        with pytest.raises(RecorderElsewhereError) as refusal:
            find_source(typed)
        assert f"http://127.0.0.1:{port} serves" in str(refusal.value)
        assert "ssh -L" in str(refusal.value)
    with pytest.raises(TraceError, match="no address"):
        find_source("http://127.0.0.1:99999")


def test_a_server_that_still_loads_is_waited_for(server: Server) -> None:
    server.status, server.body = 503, {"status": "starting", "reason": None}
    with pytest.raises(ServerStartingError, match="still loading"):
        find_source(server.url)
    result = CliRunner().invoke(command, [server.url, "--once"])
    assert isinstance(result.exception, ServerStartingError)

    async def main() -> None:
        async with top(None, starting=server.url, target=server.url) as t:

            async def until(text: str) -> None:
                deadline = time.monotonic() + 30
                while text not in t.text:
                    assert time.monotonic() < deadline, t.text
                    await t.pilot.pause(0.05)

            await until("still loading its model")
            assert t.app.desk.session.mode is Mode.LOADING
            server.status, server.body = 404, {}
            await until("neither a server")
            server.status, server.body = 503, {"status": "starting", "reason": None}
            await until("still loading its model")

    drive(main)


def test_an_address_that_never_answers_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.tui.source.PATIENCE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TraceError, match="does not answer within"):
            find_source(url)
        silent.settimeout(0.2)
        silent.accept()[0].close()
        with pytest.raises(TimeoutError):
            silent.accept()


def test_only_an_open_request_can_be_aborted(run_dir: Path, server: Server) -> None:
    async def main() -> None:
        async with top(run_dir) as t:
            session = t.app.desk.session
            assert session.model is not None
            assert session.source is not None
            session.source = replace(session.source, server_url=server.url)
            state = session.model.state
            done = next(r for r, facts in state.requests.items() if facts["left_ns"] is not None)
            t.app.desk.places.turn_to(request_id=done)
            await t.press("X")
            assert len(t.app.screen_stack) == 1
            assert "runs or waits" in "\n".join(t.header)
            t.app.desk.places.turn_to(request_id=state.waiting[0])
            await t.pilot.press("X")
            assert len(t.app.screen_stack) == 2

    drive(main)


def test_what_was_sent_is_followed_by_its_name_but_not_under_a_dialog(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir, (120, 36)) as t:
            model = t.app.desk.session.model
            assert model is not None
            who = (5 << 32) + 19  # of another front end
            own = model.state.requests[model.state.running[0]] | {"external_id": "chatcmpl-1"}
            model.state.requests[who] = own | {"request_id": who}
            await t.pilot.press("colon")
            await t.app.steering._follow("chatcmpl-1")
            assert t.place == "overview"
            await t.press("escape")
            assert "sent as r5.19" in "\n".join(t.header)
            await t.app.steering._follow("chatcmpl-1")
            await t.settle()
            assert (t.place, t.app.desk.places.here.request_id) == ("request", who)
            assert "sent; r5.19 follows" in "\n".join(t.header)

    drive(main)


def test_sending_from_a_frozen_view_goes_live(server: Server, app: TopApp) -> None:
    async def main() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            session, resumed = app.desk.session, []
            app.follower.stop()
            session.mode, session.resume = Mode.PAUSED, lambda: resumed.append(True)
            await pilot.press("i", "H", "i", "enter")
            await pilot.pause(0.2)
            assert session.mode is Mode.LOADING, "not live before there is a keyframe"
            assert resumed == [True]

    drive(main)
