import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("interview.deck", {"torch", "engine", "workbench", "lessons", "duckdb"}),
        ("interview.mock", {"torch", "engine", "workbench", "lessons", "duckdb"}),
        ("interview.traced.faults", {"torch", "engine", "workbench", "lessons", "duckdb"}),
        ("workbench.numbers_command", {"torch", "engine", "fsrs", "duckdb"}),
        ("workbench.drill_command", {"torch", "engine", "duckdb"}),
    ],
)
def test_practice_needs_no_engine(module, unwanted):
    code = f"import {module}, sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert not set(done.stdout.split()) & unwanted
