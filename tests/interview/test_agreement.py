"""The marker against a person's labels. Patterns were tuned on one half; the other half is only measured."""

from collections import Counter

import pytest

from interview.agreement import Labelled, differences, halves, load_labelled, measure
from interview.marking import VERSION_POINTS
from interview.questions import load_bank

ANSWERS = load_labelled()
TUNING, HELD_OUT = halves(ANSWERS)


def test_there_are_enough_answers_of_every_kind_and_language():
    assert len(ANSWERS) >= 80
    assert len({answer.id for answer in ANSWERS}) == len(ANSWERS)
    kinds = Counter(answer.kind for answer in ANSWERS)
    assert min(kinds.values()) >= 10
    assert set(kinds) == {"good", "partial", "wrong", "off-topic", "stuffed"}
    chinese = sum(any("\u4e00" <= char <= "\u9fff" for char in answer.text) for answer in ANSWERS)
    assert 35 <= chinese <= 65
    assert {answer.question_id for answer in ANSWERS} == set(load_bank())


def test_labels_name_points_and_mistakes_that_exist():
    for answer in ANSWERS:
        question = load_bank()[answer.question_id]
        points = {point.id for point in question.points} | {point.id for point in VERSION_POINTS}
        assert answer.points <= points, answer.id
        assert answer.mistakes <= {mistake.id for mistake in question.mistakes}, answer.id
        assert (answer.kind == "wrong") == bool(answer.mistakes), answer.id
        assert answer.kind not in ("off-topic", "stuffed") or not answer.points, answer.id


def test_the_halves_are_fixed_by_a_rule():
    assert len(TUNING) == len(HELD_OUT) == len(ANSWERS) / 2
    assert not {answer.id for answer in TUNING} & {answer.id for answer in HELD_OUT}
    again = halves(reversed(ANSWERS))
    assert [answer.id for answer in again[0]] == [answer.id for answer in TUNING]
    kinds = Counter(a.kind for a in TUNING), Counter(a.kind for a in HELD_OUT)
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize(
    ("answers", "kappa", "recall", "within_one"),
    [(TUNING, 0.95, 0.95, 0.98), (HELD_OUT, 0.85, 0.88, 0.9)],
    ids=["tuning", "held-out"],
)
def test_marker_and_labels_agree(answers, kappa, recall, within_one):
    got = measure(answers)
    assert got.kappa >= kappa
    assert got.recall >= recall
    assert got.precision >= 0.9
    assert got.scores_within_one >= within_one
    assert got.mistakes_caught == got.mistakes_labelled >= 15
    assert got.mistakes_invented <= 1
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
