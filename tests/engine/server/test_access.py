"""Who may come in, seen from an attacker's side: keys, foreign pages, bodies, slow clients, forged logs."""

import io
import json
import logging
import socket
import sys
from collections.abc import Callable, Iterator

import httpx
import openai
import pytest

from engine.server import guard, patience
from engine.server.guard import MAX_BODY_BYTES
from engine.server.logs import SafeFormatter
from engine.server.settings import ServerSettings
from tests.engine.server.conftest import (
    MODEL,
    Server,
    assert_everything_is_free,
    end_of,
    post,
    wait_for,
)
from tracing.record import Code

PATHS = {
    "GET": [
        "/v1/models",
        f"/v1/models/{MODEL}",
        "/metrics",
        "/openapi.json",
        "/nothing",
        "//health",
    ],
    "POST": [
        "/v1/completions",
        "/v1/chat/completions",
        "/tokenize",
        "/detokenize",
        "/abort_request",
    ],
}
KEY = "k" * 20


@pytest.fixture(scope="module")
def locked(start_server: Callable[..., Server]) -> Server:
    """A server with a key, a proxy's salt header, and an access log."""
    settings = ServerSettings(api_key=KEY, trusted_salt_header="X-Salt", access_log=True)
    return start_server(settings=settings)


def test_the_key_covers_every_path_but_health(locked: Server) -> None:
    assert httpx.get(f"{locked.url}/health", timeout=60).status_code == 200
    wrong = [
        {},
        *(
            {"authorization": text}
            for text in ("", "Bearer", f"Bearer {KEY}x", f"Basic {KEY}", KEY)
        ),
    ]
    for method, paths in PATHS.items():
        for path in paths:
            for headers in wrong:
                answer = httpx.request(method, f"{locked.url}{path}", headers=headers, timeout=60)
                assert answer.status_code == 401, (path, headers)
                assert answer.headers["www-authenticate"] == "Bearer"
                assert answer.json()["error"]["code"] == "invalid_api_key"
    right = {"authorization": f"bearer {KEY}"}
    metrics = httpx.get(f"{locked.url}/metrics", headers=right, timeout=60).text
    num_asked = len(wrong) * sum(len(paths) for paths in PATHS.values())
    assert f'cutaway:refused_total{{model_name="{MODEL}",status="401"}} {num_asked}.0' in metrics
    assert httpx.get(f"{locked.url}/v1/models", headers=right, timeout=60).status_code == 200
    client = openai.OpenAI(base_url=f"{locked.url}/v1", api_key=KEY, max_retries=0, timeout=60)
    assert client.models.list().data[0].id == MODEL


def test_the_operators_salt_cannot_be_chosen_by_a_client(locked: Server) -> None:
    prompt = "The lazy dog sleeps in the sun. " * 4

    def ask(salt: dict[str, str], **more: object) -> httpx.Response:
        headers = {"authorization": f"Bearer {KEY}", **salt}
        return post(
            locked, "/v1/completions", {"prompt": prompt, "max_tokens": 1, **more}, **headers
        )

    cached = [
        ask({"X-Salt": salt}).json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        for salt in ("tenant-a", "tenant-b", "tenant-a")
    ]
    assert cached[:2] == [0, 0]
    assert cached[2] > 0
    chosen = ask({"X-Salt": "tenant-b"}, cache_salt="tenant-a")
    assert (chosen.status_code, chosen.json()["error"]["param"]) == (400, "cache_salt")
    assert "X-Salt must be set" in ask({}).json()["error"]["message"]
    assert ask({"X-Salt": ""}).status_code == 400


def test_without_dev_there_is_nothing_that_touches_other_peoples_requests(locked: Server) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    for path in ("/reset_prefix_cache", "/flush_cache", "/set_trace_level"):
        assert post(locked, path, {}, **headers).status_code == 404
    description = httpx.get(f"{locked.url}/openapi.json", headers=headers, timeout=60).json()
    assert "/tokenize" in description["paths"]
    assert "/reset_prefix_cache" not in description["paths"]
    assert description["security"] == [{"key": []}]


def test_pages_of_strangers_are_refused(server: Server) -> None:
    port = server.url.rsplit(":", 1)[1]
    for host in ("evil.com", f"evil.com:{port}", "127.0.0.1.evil.com", "[", ""):
        answer = httpx.get(f"{server.url}/v1/models", headers={"host": host}, timeout=60)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "bad_host"), host
    for origin in ("http://evil.com", "null", f"http://evil.com:{port}", "http://[bad", "http://["):
        answer = post(server, "/reset_prefix_cache", {}, origin=origin)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "bad_origin"), origin
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
        answer = httpx.get(f"{server.url}/health", headers={"host": host}, timeout=60)
        assert answer.status_code == 200
    own = httpx.get(f"{server.url}/health", headers={"origin": server.url}, timeout=60)
    assert own.status_code == 200


# -- bodies and connections ------------------------------------------------------------------------


def connect(server: Server) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), 60)
    connection.settimeout(60)
    return connection


def read_all(connection: socket.socket) -> bytes:
    data = b""
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def head(length: int) -> bytes:
    return (
        b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: " + str(length).encode() + b"\r\n\r\n"
    )


def test_a_huge_body_is_refused_by_its_announcement(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(head(MAX_BODY_BYTES + 1))
        answer = read_all(connection)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"larger than 8388608 bytes" in answer


def test_a_huge_body_without_an_announcement_is_counted(server: Server) -> None:
    chunked = head(0).replace(b"content-length: 0", b"transfer-encoding: chunked")
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with connect(server) as connection:
        connection.sendall(chunked)
        sent = 0
        try:
            for _ in range(2 * MAX_BODY_BYTES // 0x10000):
                connection.sendall(piece)
                sent += 0x10000
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert sent < 2 * MAX_BODY_BYTES, "the rest was not even read"
    assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200


@pytest.fixture
def impatient(
    start_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """A server whose time for slow clients is a second."""
    monkeypatch.setattr(patience, "HEAD_S", 1.0)
    monkeypatch.setattr(patience, "STALL_S", 1.0)
    monkeypatch.setattr(guard, "BODY_S", 1.0)
    server = start_server()
    yield server
    server.stop()


def test_slow_clients_are_dropped_and_hold_no_blocks(impatient: Server) -> None:
    with (
        connect(impatient) as idle,
        connect(impatient) as slow_head,
        connect(impatient) as slow_body,
    ):
        slow_head.sendall(head(5)[:40])
        slow_body.sendall(head(500) + b'{"prompt"')
        assert read_all(idle) == b""
        assert read_all(slow_head) == b""
        answer = read_all(slow_body)
    assert answer.startswith(b"HTTP/1.1 408")
    check_a_reader_that_stalls(impatient)
    assert httpx.get(f"{impatient.url}/health", timeout=60).status_code == 200


def check_a_reader_that_stalls(server: Server) -> None:
    """It asks for a long stream and reads none of it: it is cut off, and its request ended."""
    body = {
        "prompt": "The",
        "max_tokens": 16000,
        "stream": True,
        "ignore_eos": True,
        "logprobs": 20,
    }
    raw = json.dumps(body).encode()
    lazy = socket.socket()
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with lazy:
        lazy.connect(("127.0.0.1", int(server.url.rsplit(":", 1)[1])))
        named = head(len(raw)).replace(b"host:", b"x-request-id: lazy\r\nhost:")
        lazy.sendall(named + raw)
        end = end_of(server, "cmpl-lazy")
        assert end["code"] == Code.ABORT_DISCONNECT
    assert_everything_is_free(server)


def test_what_is_not_http_gets_an_error_in_the_same_shape(server: Server) -> None:
    for nonsense in (
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
    ):
        with connect(server) as connection:
            connection.sendall(nonsense)
            answer = read_all(connection)
        assert answer.startswith(b"HTTP/1.1 400")
        assert (
            json.loads(answer.split(b"\r\n\r\n", 1)[1])["error"]["type"] == "invalid_request_error"
        )


# -- logs ------------------------------------------------------------------------------------------


@pytest.fixture
def log(locked: Server, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What the server's own handler writes from now on."""
    stream = io.StringIO()
    for name in ("cutaway.server", "uvicorn"):
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler.formatter, SafeFormatter):
                monkeypatch.setattr(handler, "stream", stream)
    return stream


def test_an_access_line_cannot_be_forged(locked: Server, log: io.StringIO) -> None:
    forged = "/v1/x%0A2026-01-01 00:00:00 INFO POST %22/admin%22 200 %1b[31m%E2%80%AE"
    httpx.get(f"{locked.url}{forged}", headers={"x-request-id": "evil"}, timeout=60)
    wait_for(lambda: "/v1/x" in log.getvalue(), "the access line")
    [line] = log.getvalue().splitlines()
    assert line.endswith("ms")
    assert r"\n2026-01-01 00:00:00 INFO POST \"/admin\" 200 \u001b[31m\u202e" in line
    assert line.isprintable()


def test_prompts_are_not_logged_and_errors_cannot_forge_lines(
    locked: Server, log: io.StringIO
) -> None:
    headers = {"authorization": f"Bearer {KEY}", "X-Salt": "s"}
    post(locked, "/v1/completions", {"prompt": "TOPSECRET", "max_tokens": 1}, **headers)
    post(locked, "/v1/completions", {"prompt": "TOPSECRET", "nonsense": "TOPSECRET"}, **headers)
    wait_for(lambda: log.getvalue().count("\n") == 2, "two access lines")
    assert "TOPSECRET" not in log.getvalue()
    try:
        raise ValueError("bad\n2026-01-01 INFO forged \x1b[2J")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "a\nb", None, sys.exc_info())
    first, *trace = SafeFormatter().format(record).split("\n")
    assert first.endswith(r"ERROR a\nb")
    assert all(line.startswith("  | ") and line.isprintable() for line in trace)


def test_bugs_of_ours_are_not_told_to_clients(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the inside of the server")

    monkeypatch.setattr("engine.server.api.parse", broken)
    answer = post(server, "/v1/completions", {"prompt": "x"})
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "internal error: RuntimeError"
    assert "inside" not in answer.text
