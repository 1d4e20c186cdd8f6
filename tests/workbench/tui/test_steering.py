"""What the screen makes of a server's answers about being held: a small server says what it is told to."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tracing.errors import TraceError
from workbench.tui.app import TopApp
from workbench.tui.mode import Mode
from workbench.tui.session import Session
from workbench.tui.source import RecorderElsewhereError, Source, find_source

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
