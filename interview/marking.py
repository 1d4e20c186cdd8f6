"""Marking an open answer: which key points it makes, which mistakes, and a score per dimension.

The idea: points and mistakes are heard by patterns, written per question in `patterns/` (`interview.hearing`
has the rules). Each point belongs to a dimension, and a dimension's mark is the share of its points.

Invariant: deterministic, and each credited point comes with the sentence that earned it.
Source: our own; agreement with labelled answers is measured by `interview.agreement`.
"""

from dataclasses import dataclass

from interview.hearing import Answer, hear, hear_mistake, hear_point, take_in
from interview.phrases import say
from interview.questions import (
    DIMENSIONS,
    Dimension,
    Mistake,
    Pattern,
    Question,
    parse_pattern,
)
from interview.text import Language, Text

FULL = 4
"""Best score of a dimension."""
MISTAKE_COST = 2
"""What each mistake takes from the mechanism score."""


@dataclass(frozen=True, slots=True)
class VersionPoint:
    """A point of version honesty, the same for every question."""

    id: str
    text: Text
    patterns: tuple[Pattern, ...]


VERSION_POINTS = (
    VersionPoint(
        "names-version",
        Text(
            "It names a version (or a date) for what it claims.", "说明所说内容的版本（或日期）。"
        ),
        tuple(
            parse_pattern(line)
            for line in (
                "#version",
                "as of & 2025|2026|2027|release|version",
                "截至",
            )
        ),
    ),
    VersionPoint(
        "says-how-known",
        Text(
            "It separates what was measured, what was read, and what is a guess.",
            "区分实测、读到的与猜测。",
        ),
        tuple(
            parse_pattern(line)
            for line in (
                "read|checked|looked & source|docs|documentation",
                "not & measured|benchmarked|tested|verified|checked|tried",
                "i measured|i have measured|we measured|i checked|i guess|my guess",
                "i only read|have only read|from reading|published figure|simulation|recorded decisions",
                "read|checked|seen & #version",
                "源码|文档 & 读|看|核对|查",
                "来自 & 模拟",
                "not & 测过|实测|压测|验证过|测出来",
                "我测过|实测过|我猜|只是推测|读自|公开数字|来自模拟|别人公布|核对过|核对的是",
            )
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Marking:
    """What the marker heard."""

    heard: dict[str, str]
    """Point id -> the sentence that made it; version points included."""
    missed: tuple[str, ...]
    mistakes: dict[str, str]
    """Mistake id -> the sentence that made it."""
    scores: dict[Dimension, int]
    """0 to 4 per dimension."""

    @property
    def share(self) -> float:
        """All dimensions together, 0 to 1."""
        return sum(self.scores.values()) / (FULL * len(self.scores))

    @property
    def weakest(self) -> Dimension:
        """The dimension to ask about next; of equals the first on the ladder."""
        return min(DIMENSIONS, key=lambda dimension: self.scores[dimension])


def mark(question: Question, answer: str) -> Marking:
    """Mark an answer in English, Chinese or both."""
    said = take_in(question, answer)
    mistakes = {
        mistake.id: found
        for mistake in question.mistakes
        if (found := hear_mistake(mistake, question, said))
    }
    taken = {
        id_ for mistake in question.mistakes if mistake.id in mistakes for id_ in mistake.takes
    }
    heard = {
        point.id: found
        for point in question.points
        if point.id not in taken and (found := hear_point(point, said))
    }
    heard |= {p.id: found for p in VERSION_POINTS if (found := hear(p.patterns, said.prose))}
    return judge(question, _within_reason(heard, question, said), mistakes)


def _within_reason(heard: dict[str, str], question: Question, said: Answer) -> dict[str, str]:
    """No more points of prose than it has statements; a figure is one, whatever is around it."""
    bare = {sentence.text for sentence in said.prose if sentence.is_bare}
    numbers = {point.id for point in question.points if point.dimension == "number"}
    figures = {id_ for id_ in numbers if heard.get(id_) not in bare}
    room = sum(sentence.num_statements for sentence in said.prose) + len(said.prose) // 3
    kept = set([id_ for id_ in heard if id_ not in figures][:room]) | figures
    return {id_: found for id_, found in heard.items() if id_ in kept}


def judge(question: Question, heard: dict[str, str], mistakes: dict[str, str]) -> Marking:
    """Scores for a set of points and mistakes, however they were found: by marker, reader or learner."""
    ids: dict[Dimension, list[str]] = {dimension: [] for dimension in DIMENSIONS}
    for point in question.points:
        ids[point.dimension].append(point.id)
    ids["version"] += [point.id for point in VERSION_POINTS]
    scores = {
        dimension: round(FULL * sum(i in heard for i in known) / len(known))
        for dimension, known in ids.items()
    }
    scores["mechanism"] = max(0, scores["mechanism"] - MISTAKE_COST * len(mistakes))
    missed = tuple(i for known in ids.values() for i in known if i not in heard)
    return Marking(heard, missed, mistakes, scores)


def point_rows(question: Question, language: Language) -> list[tuple[str, str, str]]:
    """All points of a question as (id, text, dimension), version honesty last; their order numbers them."""
    rows = [
        (p.id, p.text.in_(language), say(f"dimension_{p.dimension}", language))
        for p in question.points
    ]
    version = say("dimension_version", language)
    return rows + [(p.id, p.text.in_(language), version) for p in VERSION_POINTS]


def mistake_rows(question: Question, marking: Marking) -> list[Mistake]:
    """The misconceptions that were heard; their order letters them."""
    return [mistake for mistake in question.mistakes if mistake.id in marking.mistakes]


def shorten(sentence: str, limit: int = 90) -> str:
    """A quotation that fits a line."""
    return sentence if len(sentence) <= limit else f"{sentence[: limit - 1]}…"
