"""A plan to an interview date: what to drill on each day.

The idea: simulate. Walk the days to the date; on each day take what FSRS has due by then, the least
remembered first, then new cards while there is time, and suppose each is answered well. Two mock interviews
stand a week and two days before the date, unless nothing was ever seen and there is no earlier day.

Invariant: no day but a mock's holds more minutes than allowed; a card appears at most once a day. The plan
is made from today's progress, so it is asked for again whenever something changed.
Source: none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

from fsrs import Rating

from interview import spacing
from interview.deck import Card
from interview.drills import MINUTES
from interview.progress import Progress

MOCK_MINUTES = 45
MOCK_DAYS_BEFORE = (7, 2)
Why = Literal["due", "new"]


@dataclass(frozen=True, slots=True)
class Item:
    """One card on one day."""

    card: str
    why: Why
    minutes: int


@dataclass(frozen=True, slots=True)
class Day:
    """What one day holds."""

    day: date
    items: tuple[Item, ...]
    mock: bool

    @property
    def minutes(self) -> int:
        """All items, or the mock interview."""
        return MOCK_MINUTES if self.mock else sum(item.minutes for item in self.items)


@dataclass(frozen=True, slots=True)
class Plan:
    """Days from today to the day before the interview."""

    days: tuple[Day, ...]
    left_out: tuple[str, ...]
    """Cards for which there are not minutes enough."""


def make_plan(
    cards: list[Card], progress: Progress, today: date, interview: date, minutes: int
) -> Plan:
    """Spread the cards over the days from today on, at most so many minutes each."""
    state = {card.name: progress.cards[card.name] for card in cards if card.name in progress.cards}
    unseen = [card for card in cards if card.name not in state]
    by_name = {card.name: card for card in cards}
    all_days = (interview - today).days
    no_mock = not state and all_days <= min(MOCK_DAYS_BEFORE)
    days = []
    for offset in range(all_days):
        day = today + timedelta(days=offset)
        left = (interview - day).days
        if left in MOCK_DAYS_BEFORE and not no_mock:
            days.append(Day(day, (), mock=True))
            continue
        at = datetime.combine(day, time(12), UTC)
        due = [name for name, card in state.items() if spacing.due(card).date() <= day]
        due.sort(key=lambda name: (spacing.recall(state[name], at), name))
        items = _fill(by_name, due, [card.name for card in unseen], minutes)
        for item in items:
            before = state.get(item.card)
            longest = max(1, left - 1)
            state[item.card] = spacing.review(
                item.card, before, Rating.Good, at, longest_days=longest
            )
        unseen = [card for card in unseen if card.name not in state]
        days.append(Day(day, items, mock=False))
    return Plan(tuple(days), left_out=tuple(card.name for card in unseen))


def _fill(
    by_name: dict[str, Card], due: Iterable[str], new: Iterable[str], minutes: int
) -> tuple[Item, ...]:
    items: list[Item] = []
    wanted: list[tuple[str, Why]] = [(name, "due") for name in due]
    wanted += [(name, "new") for name in new]
    for name, why in wanted:
        cost = MINUTES[by_name[name].kind]
        if cost <= minutes:
            items.append(Item(name, why, cost))
            minutes -= cost
    return tuple(items)
