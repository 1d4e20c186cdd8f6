"""schemathesis reads the server's own description and sends it what that allows, and what it does not."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from engine.server.settings import ServerSettings
from tests.engine.server.conftest import Server, assert_everything_is_free
from tracing.record import Kind

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_request_breaks_the_server_or_hangs(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    # A short context, so that whatever is asked for ends soon.
    server = start_server(settings=ServerSettings(dev=True), max_model_len=64, num_blocks=513)
    fuzz(server, tmp_path, "--exclude-path-regex", "^/dev/")
    fuzz(server, tmp_path, "--include-path-regex", "^/dev/")  # it may hold the engine still
    resumed = httpx.post(f"{server.url}/dev/resume", json={}, timeout=60)
    assert resumed.status_code == 200
    assert server.num_starts == 1, "the core never died"
    assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200
    asked, ended = (len(server.trace.records(kind)) for kind in (Kind.REQUEST, Kind.REQUEST_END))
    assert asked == ended > 200
    assert_everything_is_free(server)


def fuzz(server: Server, folder: Path, *which: str) -> None:
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"]
    command += ["--checks", CHECKS, "--request-timeout", "30", "--max-examples", "200"]
    command += ["--seed", "1", "--phases", "examples,coverage,fuzzing", "--workers", "2", *which]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=1000)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
