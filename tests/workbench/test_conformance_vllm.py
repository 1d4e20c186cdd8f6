"""vLLM's own decisions, replayed: every step of every case that is covered."""

import copy
import json
from pathlib import Path

import pytest

from workbench.conformance.run import replay_case

GOLDEN = Path(__file__).parents[1] / "golden" / "vllm"
CASES = sorted(path.stem for path in GOLDEN.glob("*.json"))
ASYNC = {name for name in CASES if name.startswith("a")}


def load(name: str) -> dict:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", [name for name in CASES if name not in ASYNC])
def test_every_step_is_decided_as_vllm_decided_it(name):
    result = replay_case(load(name))
    assert not isinstance(result, str)
    assert result.difference is None
    assert result.num_equal_steps == result.num_steps > 0


def test_asynchronous_cases_are_named_as_not_covered():
    assert len(ASYNC) == 7
    assert {replay_case(load(name)) for name in ASYNC} == {"asynchronous scheduling"}


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("sched", lambda rows: [[rows[0][0], "R", *rows[0][2:]], *rows[1:]]),
        ("free_queue", lambda ids: ids[::-1]),
        ("cached", lambda ids: [*ids, 999]),
        ("free", lambda n: n - 1),
    ],
)
def test_a_changed_golden_value_is_found_and_located(field, change):
    case = copy.deepcopy(load("t24_lru_eviction"))
    case["steps"][0][field] = change(case["steps"][0][field])
    result = replay_case(case)
    assert result.difference is not None
    assert (result.difference.step, result.difference.field) == (0, field)
