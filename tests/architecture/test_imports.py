"""What a part may load, seen from outside: in a fresh interpreter, by sys.modules."""

import json
import subprocess
import sys

import pytest


def loaded_by(statement: str) -> set[str]:
    """Top-level modules in sys.modules after the statement."""
    show = "print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    code = f"{statement}\nimport json, sys\n{show}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import engine", {"torch", "transformers", "tracing", "duckdb"}),
        ("import engine.scheduler, engine.core", {"torch", "numpy", "duckdb", "opentelemetry"}),
        ("import tracing.record", {"numpy", "duckdb", "opentelemetry", "engine"}),
        ("import tracing.recorder", {"torch", "transformers", "engine"}),
        ("import workbench.trace_commands", {"torch", "transformers", "engine"}),
        ("import workbench.web.app", {"torch", "transformers", "engine"}),
        ("import workbench.cli", {"torch", "transformers", "duckdb", "fastapi"}),
        # The supervisor has little in it that could fail; the API never holds the model.
        ("import workbench.serve", {"torch", "numpy", "duckdb", "uvicorn", "starlette", "zmq"}),
        ("import engine.server.run", {"torch", "transformers", "duckdb"}),
    ],
)
def test_nothing_is_loaded_that_the_part_must_not_know(statement, unwanted):
    assert not loaded_by(statement) & unwanted
