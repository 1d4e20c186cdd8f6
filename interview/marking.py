"""Marking an open answer: which key points it makes, which mistakes, and a score per dimension.

The idea: a point is a set of patterns, written per question in `patterns/`. A pattern `block|page & table`
is heard when one sentence (or two neighbours) holds a term of each group, none of them only in clauses that
deny it; a group `not` asks for the denial instead. A mistake must stand closer together. Terms are Chinese,
heard anywhere, or Latin: up to three letters a whole word, longer ones the beginning of a word. So one
pattern serves both languages, and answers that mix them.

Invariant: deterministic, and each credited point comes with the sentence that earned it.
Source: our own; agreement with labelled answers is measured by `interview.agreement`.
"""

import re
from dataclasses import dataclass
from itertools import pairwise

from interview.prose import Clause, Sentence, denies, read
from interview.quantities import agree, quantities
from interview.questions import DIMENSIONS, Dimension, Figure, Pattern, Question, parse_pattern
from interview.text import Text

FULL = 4
"""Best score of a dimension."""
MISTAKE_COST = 2
"""What each mistake takes from the mechanism score."""
NOT = "not"
VERSION_TERM = "#version"
VERSION = re.compile(
    r"\b\d+\.\d+\.\d+\b"
    r"|(?:vllm|sglang|transformers|torch|version|release|版本)\W{0,2}(?:v|at |in |的)?\s?\d+\.\d+"
    r"|\d+\.\d+\s?(?:版|release)"
)
"""A release: three numbers, or two beside a name that has releases."""
REFUTES = re.compile(
    r"\b(?:mistakes?|myth|misconception|misreading|wrong|false|not true|outdated|traps?|refuted?)\b"
    r"|错误|误解|误区|不对|不成立|反驳|过时|谬误|说法"
)
"""A sentence with one of these speaks about a mistake."""


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
    asked = {s.text for half in (question.question.en, question.question.zh) for s in read(half)}
    sentences = tuple(s for s in read(answer) if s.text not in asked)  # an echo claims nothing
    heard: dict[str, str] = {}
    for point in question.points:
        found = _hear(point.patterns, sentences) or _hear_figure(point.figures, sentences)
        if found:
            heard[point.id] = found
    for version_point in VERSION_POINTS:
        found = _hear(version_point.patterns, sentences)
        if found:
            heard[version_point.id] = found
    room = sum(sentence.num_statements for sentence in sentences)
    heard = dict(list(heard.items())[:room])
    mistakes = {
        mistake.id: found
        for mistake in question.mistakes
        if (found := _hear_mistake(mistake.patterns, sentences))
    }
    return judge(question, heard, mistakes)


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


def _hear(patterns: tuple[Pattern, ...], sentences: tuple[Sentence, ...]) -> str:
    """The sentence, or pair of sentences, in which a pattern is heard; empty if none is."""
    windows = [(sentence.text, sentence.clauses) for sentence in sentences]
    windows += [(f"{a.text} {b.text}", a.clauses + b.clauses) for a, b in pairwise(sentences)]
    for text, clauses in windows:
        if any(_holds(pattern, clauses) for pattern in patterns):
            return text
    return ""


def _hear_mistake(patterns: tuple[Pattern, ...], sentences: tuple[Sentence, ...]) -> str:
    """The sentence that claims the mistake. A claim is short, and naming it as a mistake is none."""
    for sentence in sentences:
        if REFUTES.search(sentence.text) is None and any(
            _holds(pattern, claim) for pattern in patterns for claim in sentence.claims
        ):
            return sentence.text
    return ""


def _holds(pattern: Pattern, clauses: tuple[Clause, ...]) -> bool:
    """Every group is affirmed somewhere; with a `not` group, one of them stands in a denying clause."""
    groups = [group for group in pattern if group != (NOT,)]
    if len(groups) == len(pattern):
        return all(any(_affirms(group, clause) for clause in clauses) for group in groups)
    places = [[c for c in clauses if any(_says(term, c) for term in group)] for group in groups]
    return all(places) and any(clause.negated for place in places for clause in place)


def _affirms(group: tuple[str, ...], clause: Clause) -> bool:
    """A term of the group stands here undenied; a term like "no gain" is a denial by itself."""
    return any(
        _says(term, clause) and (not clause.negated or term == VERSION_TERM or denies(term))
        for term in group
    )


def _says(term: str, clause: Clause) -> bool:
    if term == VERSION_TERM:
        return VERSION.search(clause.text) is not None
    if not term.isascii():
        return term in clause.text
    want = term.split()
    for start in range(len(clause.words) - len(want) + 1):
        if all(_is(w, word) for w, word in zip(want, clause.words[start:], strict=False)):
            return True
    return False


def _is(want: str, word: str) -> bool:
    return word == want if len(want) <= 3 or want[0].isdigit() else word.startswith(want)


def _hear_figure(figures: tuple[Figure, ...], sentences: tuple[Sentence, ...]) -> str:
    """The sentence that gives one of the numbers within its tolerance."""
    for figure in figures:
        expected = quantities(figure.value)[0]
        for sentence in sentences:
            near = not figure.near or any(
                _says(term, clause) for term in figure.near for clause in sentence.clauses
            )
            found = quantities(sentence.text) if near else []
            if any(agree(quantity, expected, figure.tolerance) for quantity in found):
                return sentence.text
    return ""
