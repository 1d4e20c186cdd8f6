"""The examples of `engine/server/README.md`, run by curl as they stand there."""

import json
import os
import re
import shutil
import subprocess
from importlib.resources import files

import httpx
import pytest

from tests.engine.server.conftest import Server

README = files("engine.server").joinpath("README.md").read_text()
EXAMPLES = re.findall(r"```sh\n(.*?)```", README, re.S)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("command", EXAMPLES, ids=lambda c: re.search(r"\$URL(\S+)", c).group(1))
def test_an_example_works(server: Server, command: str) -> None:
    quiet = command.replace("curl ", "curl -sS --fail-with-body ", 1)
    done = subprocess.run(
        ["bash", "-c", quiet],
        env=os.environ | {"URL": server.url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if "stream" in command:
        assert done.stdout.endswith("data: [DONE]\n\n")
        assert '"usage":{' in done.stdout
    elif "metrics" not in command:
        assert json.loads(done.stdout)


def test_every_path_has_an_example(server: Server) -> None:
    paths = httpx.get(f"{server.url}/openapi.json", timeout=60).json()["paths"]
    shown = {re.search(r"\$URL(\S+)", command).group(1) for command in EXAMPLES}
    in_table = set(re.findall(r"^\| `(/dev/\S+)` \|", README, re.M))
    assert paths.keys() - shown - in_table == {"/v1/models/{model}", "/flush_cache"}
    assert in_table < paths.keys()
