"""SGLang's own decisions, replayed: every step of every case that is covered."""

import copy
import json
from pathlib import Path

import pytest

from workbench.conformance.sglang import not_covered, replay_case

GOLDEN = Path(__file__).parents[1] / "golden" / "sglang"
CASES = {
    path.stem: json.loads(path.read_text())
    for path in sorted(GOLDEN.glob("*.json"))
    if path.stem != "index"
}
NOT_COVERED = {name: reason for name, case in CASES.items() if (reason := not_covered(case))}


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_COVERED])
def test_every_step_is_decided_as_sglang_decided_it(name):
    result = replay_case(CASES[name])
    assert not isinstance(result, str)
    assert result.difference is None
    assert result.num_equal_steps == result.num_steps > 0


def test_what_is_not_covered_is_named():
    by_reason: dict[str, list[str]] = {}
    for name, reason in NOT_COVERED.items():
        by_reason.setdefault(reason, []).append(name)
        assert replay_case(CASES[name]) == reason
    assert {reason: len(names) for reason, names in by_reason.items()} == {
        "published KV events": 3,
        "bigram keys (speculative decoding)": 1,
        "overlapped scheduling": 7,
    }
    assert not_covered({"kind": "weather", "config": {}}) == "unknown kind weather"


def first(case, key):
    return case[key][0]


@pytest.mark.parametrize(
    ("name", "change", "step", "field"),
    [
        ("r04_locks", lambda c: c["steps"][1]["after"]["tree"][0].update(lock=7), 1, "tree"),
        (
            "r01_insert_match_split",
            lambda c: c["steps"][3]["got"].update(end_node=1),
            3,
            "end_node",
        ),
        ("r01_insert_match_split", lambda c: c["steps"][7]["got"]["slots"].reverse(), 7, "slots"),
        ("r06_evict_whole_nodes", lambda c: c["steps"][-1].update(gone=[77]), 8, "gone"),
        (
            "r07_recency_of_a_split",
            lambda c: c["steps"][3]["after"]["old_to_new"].sort(),
            3,
            "old_to_new",
        ),
        (
            "q03_same_prompt_concurrently",
            lambda c: c["steps"][-1]["req"].update(tree_owned=0),
            -1,
            "req",
        ),
        ("p02_lpm", lambda c: c["got"]["order"].reverse(), 0, "order"),
        ("a04_chunk_cut", lambda c: c["got"]["steps"][1].update(extend=21), 2, "extend"),
        (
            "n01_new_token_ratio",
            lambda c: c["trackers"][1]["after_steps"].update({"10": 0.2}),
            1,
            "ratio",
        ),
        ("x01_shortest_output_first", lambda c: c["got"].update(retracted=["c"]), 0, "retracted"),
        ("t04_retraction_normal", lambda c: c["ticks"][12].update(full=True), 12, "full"),
        (
            "t04_retraction_normal",
            lambda c: c["requests"]["c"].update(retractions=0),
            30,
            "requests",
        ),
    ],
)
def test_a_changed_golden_value_is_found_and_located(name, change, step, field):
    case = copy.deepcopy(CASES[name])
    change(case)
    result = replay_case(case)
    assert not isinstance(result, str)
    assert result.difference is not None
    assert result.difference.field == field
    assert result.difference.step == result.num_equal_steps == step % result.num_steps
    assert result.difference.theirs != result.difference.ours
    assert result.difference.rule
