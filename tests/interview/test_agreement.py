"""The marker against a person's labels. Patterns were tuned on one set; the fresh one is only measured."""

from collections import Counter
from pathlib import Path

import pytest

from interview.agreement import Labelled, differences, load_labelled, measure
from interview.marking import VERSION_POINTS
from interview.questions import load_bank

TUNING, FRESH = load_labelled("tuning"), load_labelled("fresh")
ANSWERS = TUNING + FRESH


@pytest.mark.parametrize(
    ("answers", "number", "of_each"), [(TUNING, 100, 10), (FRESH, 40, 3)], ids=["tuning", "fresh"]
)
def test_there_are_enough_answers_of_every_kind_and_language(answers, number, of_each):
    assert len(answers) >= number
    kinds = Counter(answer.kind for answer in answers)
    assert min(kinds.values()) >= of_each
    assert set(kinds) == {"good", "partial", "wrong", "off-topic", "stuffed"}
    chinese = sum(any("\u4e00" <= char <= "\u9fff" for char in answer.text) for answer in answers)
    assert 0.35 <= chinese / len(answers) <= 0.65
    assert {answer.question_id for answer in answers} == set(load_bank())


def test_no_answer_is_in_both_sets():
    assert len({answer.id for answer in ANSWERS}) == len(ANSWERS)
    assert len({answer.text for answer in ANSWERS}) == len(ANSWERS)


def test_labels_name_points_and_mistakes_that_exist():
    for answer in ANSWERS:
        question = load_bank()[answer.question_id]
        points = {point.id for point in question.points} | {point.id for point in VERSION_POINTS}
        assert answer.points <= points, answer.id
        assert answer.mistakes <= {mistake.id for mistake in question.mistakes}, answer.id
        assert (answer.kind == "wrong") == bool(answer.mistakes), answer.id
        assert answer.kind not in ("off-topic", "stuffed") or not answer.points, answer.id


def test_marker_and_labels_agree_where_it_was_tuned():
    got = measure(TUNING)
    assert got.kappa >= 0.95
    assert got.recall >= 0.95
    assert got.precision >= 0.95
    assert got.scores_within_one >= 0.98
    assert got.mistakes_caught == got.mistakes_labelled >= 30
    assert got.mistakes_invented == 0
    assert got.highest_empty_share <= 0.1


def test_the_fresh_set_agrees_as_the_readme_says():
    got = measure(FRESH)
    readme = (Path(__file__).parents[2] / "interview" / "README.md").read_text(encoding="utf-8")
    row = next(line for line in readme.splitlines() if line.startswith("| fresh set"))
    assert f"({got.answers} answers)" in row
    assert f"| {100 * got.agreed:.1f} % | {got.kappa:.2f} |" in row
    assert f"| {got.precision:.2f} | {got.recall:.2f} |" in row
    assert f"| {got.mistakes_caught} of {got.mistakes_labelled} | {got.mistakes_invented} |" in row
    assert got.highest_empty_share <= 0.1


def test_kinds_are_told_apart_by_the_marks():
    means = {}
    for kind in ("good", "partial", "wrong"):
        shares = [mark_share(answer) for answer in ANSWERS if answer.kind == kind]
        means[kind] = sum(shares) / len(shares)
    assert means["good"] > 0.5 > 0.3 > means["partial"] > means["wrong"]


def mark_share(answer: Labelled) -> float:
    from interview.marking import mark

    return mark(load_bank()[answer.question_id], answer.text).share


def test_measure_sees_a_marker_that_is_wrong():
    answer = next(a for a in TUNING if a.kind == "good")
    blank = Labelled(answer.id, answer.question_id, "good", answer.text, frozenset(), frozenset())
    got = measure([blank])
    assert got.precision == 0
    assert got.kappa < 0.2
    assert {d.id for d in differences([blank])} >= set()
    assert all(difference.heard for difference in differences([blank]))
