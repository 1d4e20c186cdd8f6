"""A mock interview: five rungs in 45 minutes, and a report.

The idea: interviewers climb a ladder, scope -> mechanism -> number -> limit -> "how would you verify". Each
rung takes cards that were asked least recently, from as many topics as there are; after an open answer comes
one follow-up at its weakest dimension.

Invariant: seed and progress decide the cards; minutes of the rungs sum to 45.
Source: ladder and rubric are our own.
"""

import random
from dataclasses import dataclass
from datetime import datetime

from interview import spacing
from interview.deck import Card
from interview.drills import Kind
from interview.progress import Progress, Review
from interview.questions import DIMENSIONS, Dimension, Rung, load_bank
from interview.traced.kinds import TRACE_KINDS

RUNG_MINUTES: dict[Rung, int] = {"scope": 7, "mechanism": 13, "number": 8, "limit": 10, "verify": 7}
RUNG_KINDS: dict[Rung, tuple[Kind, ...]] = {
    "scope": ("concept",),
    "mechanism": ("concept", "concept"),
    "number": ("numeric", "concept"),
    "limit": ("concept", "concept"),
    "verify": ("concept", "trace"),
}
"""What is asked on each rung, in order."""
STRONG, WEAK = 3.0, 1.5
"""Mean marks of 4 from which a dimension is strong, and below which it is weak."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One rung with the cards that are asked on it."""

    rung: Rung
    minutes: int
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """What came out of an interview."""

    means: dict[Dimension, float]
    """Mean marks per dimension over the open answers; empty if there were none."""
    strong: tuple[Dimension, ...]
    weak: tuple[Dimension, ...]
    weak_cards: tuple[str, ...]
    """Cards answered with less than half of the marks, and those passed on."""
    stale: tuple[str, ...]
    """Cards not asked now and probably forgotten."""
    review: tuple[str, ...]
    """Commands: lessons and numbers behind the weak cards, without repeats."""


def make_stages(cards: list[Card], progress: Progress, seed: int) -> list[Stage]:
    """The rungs with their cards: a number is drilled, everything else is asked openly.

    On the last rung, the second card is a moment of a recorded run, if there is one to ask about.
    """
    rng = random.Random(seed)
    asked = {review.card: index for index, review in enumerate(progress.reviews)}
    stages = []
    seen_topics: set[str] = set()
    for rung, minutes in RUNG_MINUTES.items():
        chosen: list[Card] = []
        for kind in RUNG_KINDS[rung]:
            pool = [card for card in cards if card.rung == rung and card.kind == kind]
            pool = [card for card in pool if card not in chosen]
            if not pool:
                continue
            rng.shuffle(pool)
            pool.sort(key=lambda card: asked.get(card.name, -1))
            fresh = [card for card in pool if card.topic not in seen_topics]
            card = (fresh or pool)[0]
            seen_topics.add(card.topic)
            chosen.append(card)
        stages.append(Stage(rung, minutes, tuple(chosen)))
    return stages


def make_report(
    reviews: list[Review], skipped: list[str], progress: Progress, at: datetime
) -> Report:
    """Sum up one interview: its answers, and the cards that were passed on. progress is that after it."""
    open_answers = [review.scores for review in reviews if review.scores is not None]
    means = {
        dimension: sum(scores[dimension] for scores in open_answers) / len(open_answers)
        for dimension in DIMENSIONS
        if open_answers
    }
    now = {*skipped, *(review.card for review in reviews)}
    weak_cards = (*(review.card for review in reviews if review.share < 0.5), *skipped)
    stale = [
        name
        for name, card in sorted(progress.cards.items())
        if name not in now and spacing.recall(card, at) < spacing.STALE_BELOW
    ]
    return Report(
        means=means,
        strong=tuple(d for d, mean in means.items() if mean >= STRONG),
        weak=tuple(d for d, mean in means.items() if mean < WEAK),
        weak_cards=weak_cards,
        stale=tuple(stale),
        review=tuple(dict.fromkeys(command for name in weak_cards for command in _behind(name))),
    )


def _behind(card: str) -> list[str]:
    """Commands that show what a card is about."""
    kind, _, name = card.partition("/")
    match kind:
        case "numeric":
            return [f"cutaway numbers {name}"]
        case "trace":
            lesson = next(k.lesson for k in TRACE_KINDS if k.name == name)
            return [f"cutaway learn {lesson}", "cutaway drill --kind trace"]
        case "fault":
            return ["cutaway drill --kind fault"]
    question = load_bank()[name]
    lessons = [f"cutaway learn {lesson}" for lesson in question.lessons]
    return [*lessons, f"cutaway drill show {name}"]
