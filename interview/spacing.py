"""When a card comes back: FSRS, fed with what an answer was worth.

The idea: FSRS keeps two numbers per card, stability (days until recall falls to 90 %) and difficulty, and
moves them by a rating of four. Here the rating comes from the marks, and an answer over its time limit is at
most "hard". Steps within a day are left out: a drill is a matter of days.

Invariant: no randomness; the same reviews give the same dates.
Source: package `fsrs` 6.3 (FSRS-6, Ye et al., https://github.com/open-spaced-repetition/py-fsrs).
"""

import zlib
from datetime import datetime

from fsrs import Card, Rating, Scheduler
from fsrs.card import CardDict

LONGEST_DAYS = 365
"""Nothing comes back later than that."""
STALE_BELOW = 0.7
"""Probability of recall below which a card counts as stale."""


def rate(share: float, *, late: bool) -> Rating:
    """The rating of an answer that got this share of its marks, 0 to 1."""
    if share < 0.3:
        return Rating.Again
    if share < 0.55 or late:
        return Rating.Hard
    return Rating.Good if share < 0.85 else Rating.Easy


def review(
    name: str,
    card: CardDict | None,
    rating: Rating,
    at: datetime,
    *,
    longest_days: int = LONGEST_DAYS,
) -> CardDict:
    """The card after a review at this time (UTC). longest_days: it comes back within so many."""
    before = Card(card_id=zlib.crc32(name.encode())) if card is None else Card.from_dict(card)
    after, _ = _scheduler(longest_days).review_card(before, rating, at)
    return after.to_dict()


def due(card: CardDict) -> datetime:
    """When it should be asked again."""
    return Card.from_dict(card).due


def recall(card: CardDict, at: datetime) -> float:
    """Probability, 0 to 1, that it is still known at this time."""
    return _scheduler(LONGEST_DAYS).get_card_retrievability(Card.from_dict(card), at)


def _scheduler(longest_days: int) -> Scheduler:
    return Scheduler(
        learning_steps=(),
        relearning_steps=(),
        maximum_interval=max(1, longest_days),
        enable_fuzzing=False,
    )
