from datetime import UTC, date, datetime, timedelta

import pytest

from interview import spacing
from interview.deck import deck
from interview.drills import MINUTES
from interview.plan import MOCK_MINUTES, make_plan
from interview.progress import Progress, Review

TODAY = date(2026, 11, 30)
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def progress(*cards: str, share: float = 0.6) -> Progress:
    made = Progress()
    for card in cards:
        made = made.with_review(Review(card, NOW, share, share, 10.0, False, None))
    return made


@pytest.mark.parametrize("days", [1, 2, 5, 14, 40])
@pytest.mark.parametrize("minutes", [5, 20, 60])
def test_no_day_holds_more_than_it_may(days, minutes):
    plan = make_plan(deck(), progress(), TODAY, TODAY + timedelta(days=days), minutes)
    kinds = {card.name: card.kind for card in deck()}
    assert [day.day for day in plan.days] == [TODAY + timedelta(days=i) for i in range(days)]
    for day in plan.days:
        names = [item.card for item in day.items]
        assert len(names) == len(set(names))
        assert all(item.minutes == MINUTES[kinds[item.card]] for item in day.items)
        assert day.minutes <= (MOCK_MINUTES if day.mock else minutes)


def test_mock_interviews_stand_a_week_and_two_days_before():
    plan = make_plan(deck(), progress(), TODAY, TODAY + timedelta(days=14), 30)
    assert [(TODAY + timedelta(days=14) - day.day).days for day in plan.days if day.mock] == [7, 2]


def test_in_two_weeks_everything_is_seen_and_comes_again():
    plan = make_plan(deck(), progress(), TODAY, TODAY + timedelta(days=14), 30)
    assert plan.left_out == ()
    seen: dict[str, list[str]] = {}
    for day in plan.days:
        for item in day.items:
            seen.setdefault(item.card, []).append(item.why)
    assert set(seen) == {card.name for card in deck()}
    assert all(whys[0] == "new" and set(whys[1:]) <= {"due"} for whys in seen.values())
    assert sum(len(whys) > 1 for whys in seen.values()) > len(seen) / 2


def test_nothing_new_is_begun_in_the_last_days():
    plan = make_plan(deck(), progress(), TODAY, TODAY + timedelta(days=14), 30)
    last = [item for day in plan.days[-2:] for item in day.items]
    assert last
    assert {item.why for item in last} == {"due"}


@pytest.mark.parametrize("days", [1, 2])
def test_whoever_has_seen_nothing_begins_even_on_the_last_days(days):
    plan = make_plan(deck(), progress(), TODAY, TODAY + timedelta(days=days), 30)
    assert not any(day.mock for day in plan.days)
    assert {item.why for item in plan.days[0].items} == {"new"}
    assert all(day.items for day in plan.days)
    assert plan.left_out


@pytest.mark.parametrize("days", [1, 2])
def test_minutes_that_nothing_due_takes_go_to_what_is_new_even_on_the_last_days(days):
    plan = make_plan(deck(), progress("numeric/kv"), TODAY, TODAY + timedelta(days=days), 30)
    least = min(MINUTES[card.kind] for card in deck() if card.name in plan.left_out)
    last = plan.days[-1]
    assert 30 - least < last.minutes <= 30
    assert "new" in {item.why for item in last.items}
    assert plan.days[0].mock == (days == 2)


def test_what_finds_no_time_is_named():
    plan = make_plan(deck(), progress(), TODAY, TODAY + timedelta(days=4), 5)
    planned = {item.card for day in plan.days for item in day.items}
    assert planned
    assert planned | set(plan.left_out) == {card.name for card in deck()}
    assert not planned & set(plan.left_out)


def test_what_is_due_comes_before_what_is_new():
    old = progress("concept/q33", "numeric/fleet", share=0.1)
    plan = make_plan(deck(), old, TODAY + timedelta(days=3), TODAY + timedelta(days=20), 10)
    first = plan.days[0].items
    assert {item.card for item in first[:2]} == {"concept/q33", "numeric/fleet"}
    assert [item.why for item in first[:2]] == ["due", "due"]


def test_of_two_due_cards_the_less_remembered_comes_first():
    strong, weak = progress("concept/q02", share=0.6), progress("concept/q33", share=0.1)
    both = Progress(cards=strong.cards | weak.cards)
    later = NOW + timedelta(days=10)
    assert spacing.recall(weak.cards["concept/q33"], later) < spacing.recall(
        strong.cards["concept/q02"], later
    )
    plan = make_plan(deck(), both, later.date(), later.date() + timedelta(days=5), 60)
    assert [item.card for item in plan.days[0].items[:2]] == ["concept/q33", "concept/q02"]


def test_the_plan_leaves_progress_alone():
    before = progress("concept/q02")
    cards = {name: dict(card) for name, card in before.cards.items()}
    make_plan(deck(), before, TODAY, TODAY + timedelta(days=14), 30)
    assert before.cards == cards
