"""Who is answered, and what the pages may load: asked over HTTP, as a stranger would."""

import socket
from typing import Any

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from tests.workbench.web.conftest import RUN
from workbench.look.words import Words
from workbench.web.command import WebError, web
from workbench.web.security import Guard, content_policy


@pytest.fixture
def client(app: Any) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1:8050")


@pytest.fixture
def guarded(app: Any) -> TestClient:
    """The same, behind a token."""
    inner = app._app  # the app without its own guard
    return TestClient(
        Guard(inner, policy="default-src 'none'", token="sesame"), base_url="http://cat.example"
    )


def test_the_policy_allows_own_scripts_and_no_inline_ones(client: TestClient) -> None:
    response = client.get("/")
    rules = dict(
        rule.split(" ", 1) for rule in response.headers["content-security-policy"].split("; ")
    )
    assert "unsafe" not in rules["script-src"]
    assert rules["script-src"].startswith("'self' 'sha256-")
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert "<script>" not in response.text, "an inline script would be refused by the policy"


@pytest.mark.parametrize(
    "path", ["/", "/data/servers", f"/data/runs/{RUN}/overview", "/assets/main.mjs"]
)
def test_only_this_machine_and_this_page_are_answered(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 200
    for headers in (
        {"host": "evil.example"},
        {"host": "evil.example:8050"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"host": "["},
        {"origin": "http://["},
        {"host": "[", "origin": "http://["},
    ):
        assert client.get(path, headers=headers).status_code == 403, headers
    assert client.get(path, headers={"origin": "http://127.0.0.1:8050"}).status_code == 200


def test_streams_and_sockets_check_the_origin_too(client: TestClient) -> None:
    stranger = {"origin": "http://evil.example"}
    assert client.get(f"/data/runs/{RUN}/stream", headers=stranger).status_code == 403
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/_dash-ws-callback", headers=stranger),
    ):
        pass
    ended = client.get(f"/data/runs/{RUN}/stream")
    assert ended.text.startswith("event: end")


def test_with_a_token_nothing_is_answered_without_it(guarded: TestClient) -> None:
    for path in ("/", "/data/servers", "/assets/main.mjs", f"/data/runs/{RUN}/stream"):
        assert guarded.get(path).status_code == 403
        assert guarded.get(path, params={"token": "wrong"}).status_code == 403
    first = guarded.get("/replay/x", params={"token": "sesame", "step": 3}, follow_redirects=False)
    assert first.status_code == 303
    assert first.headers["location"] == "/replay/x?step=3"
    assert "HttpOnly" in first.headers["set-cookie"]
    assert "SameSite=strict" in first.headers["set-cookie"]
    assert guarded.get("/data/servers").status_code == 200  # the cookie has it now


def test_a_redirect_never_leads_to_another_host(guarded: TestClient) -> None:
    answer = guarded.get("/%2fevil.example/x?token=sesame", follow_redirects=False)
    assert answer.headers["location"] == "/evil.example/x"


def test_no_route_reads_a_path(client: TestClient) -> None:
    for name in ("..%2f..%2fetc", "%2fetc%2fpasswd", "small-mixed%2f..", ".", ""):
        assert client.get(f"/data/runs/{name}/overview").status_code == 404, name
    for path in ("/assets/../app.py", "/assets/%2e%2e/app.py", "/etc/passwd"):
        response = client.get(path)
        assert response.status_code == 404 or "<!DOCTYPE" in response.text, path


def test_what_is_asked_of_a_run_is_checked(client: TestClient) -> None:
    ask = client.get
    base = f"/data/runs/{RUN}"
    assert ask(f"{base}/steps", params={"engine": "0; drop", "a": 0, "b": 1}).status_code == 422
    assert ask(f"{base}/pool", params={"engine": 0, "step": 2**40}).status_code == 422
    nonsense = {"engine": 0, "kind": "x", "step": 0, "seq": 0, "back": False}
    assert ask(f"{base}/next", params=nonsense).status_code == 422
    found = ask(f"{base}/request", params={"external": "' OR '1'='1"})
    assert found.json() == {"request_id": None}
    mark = {"engine": 0, "kind": "step", "lang": "en"}
    for step, status in ((-1, 400), (10**6, 400), (3, 200)):
        assert ask(f"{base}/why", params={**mark, "step": step}).status_code == status
    in_chinese = {"cookie": "cutaway_lang=zh"}
    for path, key in (("/data/servers/1/chat", "server_gone"), ("/data/runs/x/stream", "")):
        answer = client.request("POST" if key else "GET", path, headers=in_chinese)
        assert answer.status_code == 404
        assert answer.json()["error"] == Words("zh")(f"web.refusal.{key or 'unknown_run'}")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"output": "x"}', b'{"output": "x", "inputs": [1]}']
)
def test_what_is_no_callback_of_a_page_is_refused(client: TestClient, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = client.post("/_dash-update-component", content=body, headers=headers)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "sql",
    [
        "drop table step",
        "copy step to '/tmp/x'",
        "select * from read_csv('/etc/passwd')",
        "select * from '/etc/passwd'",
        "attach '/tmp/y.db'",
        "install httpfs",
        "set enable_external_access = true",
        "select 1; select 2",
    ],
)
def test_a_question_reads_this_run_and_nothing_else(client: TestClient, sql: str) -> None:
    asked = {"sql": sql, "format": "csv"}
    refused = client.post(f"/data/runs/{RUN}/download", json=asked)
    assert refused.status_code == 400
    assert refused.json()["error"]


def test_more_than_this_machine_needs_a_token() -> None:
    with pytest.raises(WebError, match="--token new"):
        web.callback(runs=(), port=0, host="0.0.0.0", token=None, parent=None)  # type: ignore[misc]


def test_a_taken_port_is_passed_over() -> None:
    from workbench.web.command import listen

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with listen("127.0.0.1", port) as found:
            assert port < found.getsockname()[1] < port + 20
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), "answers would wait"


def test_policy_names_hashes_as_given() -> None:
    assert "script-src 'self' 'sha256-abc'" in content_policy(["'sha256-abc'"])
