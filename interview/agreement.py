"""How well the marker agrees with a person: labelled answers it was tuned on, and fresh ones.

The idea: patterns are tuned on one set of answers and reported on another, which was written from questions
and key points alone, before the patterns took their present form, and is only measured. A set that was read
and led to changes is a tuning set from then on; then new answers are written.

Invariant: `labelled/fresh` is never looked at to change a pattern or a rule.
Source: Cohen 1960 for kappa.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, get_args

from interview.marking import VERSION_POINTS, judge, mark
from interview.questions import load_bank

Part = Literal["tuning", "fresh"]
Kind = Literal["good", "partial", "wrong", "off-topic", "stuffed"]


@dataclass(frozen=True, slots=True)
class Labelled:
    """An answer, and what a person heard in it."""

    id: str
    question_id: str
    kind: Kind
    text: str
    points: frozenset[str]
    mistakes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Marker against labels over some answers."""

    answers: int
    decisions: int
    """One for each answer and each point of its question."""
    agreed: float
    """Share of decisions that are equal."""
    kappa: float
    """The same beyond chance."""
    precision: float
    recall: float
    mistakes_labelled: int
    mistakes_caught: int
    mistakes_invented: int
    scores_within_one: float
    """Share of dimension scores (0-4) that are at most one apart."""
    highest_empty_share: float
    """The best total, 0 to 1, that an off-topic or stuffed answer got."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A point or mistake on which marker and label differ."""

    answer_id: str
    id: str
    heard: bool
    """The marker heard it; the label says no. False: the other way round."""


def load_labelled(part: Part) -> list[Labelled]:
    """The labelled answers of one set."""
    found = []
    folder = files("interview") / "labelled"
    if part == "fresh":
        folder = folder / "fresh"
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            for raw in tomllib.loads(file.read_text(encoding="utf-8"))["answers"]:
                assert raw["kind"] in get_args(Kind), raw["id"]
                found.append(
                    Labelled(
                        id=raw["id"],
                        question_id=file.name.removesuffix(".toml"),
                        kind=raw["kind"],
                        text=raw["text"].strip(),
                        points=frozenset(raw["points"]),
                        mistakes=frozenset(raw.get("mistakes", [])),
                    )
                )
    return found


def differences(answers: Iterable[Labelled]) -> list[Difference]:
    """Where the marker and the labels differ: to be looked at for the tuning set only."""
    found = []
    for answer in answers:
        marking = mark(load_bank()[answer.question_id], answer.text)
        for heard, labelled in (
            (frozenset(marking.heard), answer.points),
            (frozenset(marking.mistakes), answer.mistakes),
        ):
            found += [Difference(answer.id, id_, True) for id_ in sorted(heard - labelled)]
            found += [Difference(answer.id, id_, False) for id_ in sorted(labelled - heard)]
    return found


def measure(answers: Iterable[Labelled]) -> Agreement:
    """Agreement over these answers."""
    answers = list(answers)
    both = only_marker = only_label = neither = 0
    labelled = caught = invented = 0
    near = scores = 0
    empty = 0.0
    for answer in answers:
        question = load_bank()[answer.question_id]
        marking = mark(question, answer.text)
        for id_ in [p.id for p in question.points] + [p.id for p in VERSION_POINTS]:
            match (id_ in marking.heard, id_ in answer.points):
                case (True, True):
                    both += 1
                case (True, False):
                    only_marker += 1
                case (False, True):
                    only_label += 1
                case _:
                    neither += 1
        labelled += len(answer.mistakes)
        caught += len(answer.mistakes & set(marking.mistakes))
        invented += len(set(marking.mistakes) - answer.mistakes)
        wanted = judge(
            question, dict.fromkeys(answer.points, ""), dict.fromkeys(answer.mistakes, "")
        )
        scores += len(wanted.scores)
        near += sum(abs(marking.scores[d] - wanted.scores[d]) <= 1 for d in wanted.scores)
        if answer.kind in ("off-topic", "stuffed"):
            empty = max(empty, marking.share)
    decisions = both + only_marker + only_label + neither
    agreed = (both + neither) / decisions
    by_marker, by_label = (both + only_marker) / decisions, (both + only_label) / decisions
    chance = by_marker * by_label + (1 - by_marker) * (1 - by_label)
    return Agreement(
        answers=len(answers),
        decisions=decisions,
        agreed=agreed,
        kappa=(agreed - chance) / (1 - chance),
        precision=both / max(1, both + only_marker),
        recall=both / max(1, both + only_label),
        mistakes_labelled=labelled,
        mistakes_caught=caught,
        mistakes_invented=invented,
        scores_within_one=near / scores,
        highest_empty_share=empty,
    )
