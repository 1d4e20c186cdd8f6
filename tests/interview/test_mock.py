from datetime import UTC, datetime, timedelta

from interview.deck import deck
from interview.mock import RUNG_KINDS, RUNG_MINUTES, make_report, make_stages
from interview.plan import MOCK_MINUTES
from interview.progress import Progress, Review
from interview.questions import RUNGS

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def review(card: str, share: float, at: datetime = NOW, **scores: int) -> Review:
    marks = {"mechanism": 2, "boundary": 2, "number": 2, "trade-off": 2, "version": 2}
    marks |= {name.replace("_", "-"): score for name, score in scores.items()}
    return Review(card, at, share, share, 60.0, False, marks if scores else None)


def test_the_ladder_is_climbed_in_45_minutes():
    stages = make_stages(deck(), Progress(), 1)
    assert tuple(stage.rung for stage in stages) == RUNGS
    assert sum(stage.minutes for stage in stages) == sum(RUNG_MINUTES.values()) == MOCK_MINUTES
    for stage in stages:
        assert {card.rung for card in stage.cards} == {stage.rung}
        assert tuple(card.kind for card in stage.cards) == RUNG_KINDS[stage.rung]
    names = [card.name for stage in stages for card in stage.cards]
    assert len(names) == len(set(names))


def test_without_a_run_nothing_is_asked_about_one():
    cards = [card for card in deck() if card.kind not in ("trace", "fault")]
    last = make_stages(cards, Progress(), 1)[-1]
    assert [card.kind for card in last.cards] == ["concept"]


def test_topics_vary_and_seeds_differ():
    interviews = set()
    for seed in range(8):
        cards = [card for stage in make_stages(deck(), Progress(), seed) for card in stage.cards]
        assert len({card.topic for card in cards}) >= 5
        interviews.add(tuple(card.name for card in cards))
    assert len(interviews) >= 4
    assert make_stages(deck(), Progress(), 3) == make_stages(deck(), Progress(), 3)


def test_every_question_of_a_rung_comes_in_some_interview():
    wanted = {card.name for card in deck() if card.kind == "concept" and card.rung == "number"}
    assert wanted == {"concept/q11", "concept/q22"}
    asked = {
        card.name for seed in range(12) for card in make_stages(deck(), Progress(), seed)[2].cards
    }
    assert wanted <= asked


def test_what_was_asked_least_recently_is_asked():
    scope = [c.name for c in deck() if c.rung == "scope" and c.kind == "concept"]
    progress = Progress()
    for name in scope[1:]:
        progress = progress.with_review(review(name, 0.5))
    for seed in range(6):
        assert make_stages(deck(), progress, seed)[0].cards[0].name == scope[0]


def test_the_report_says_strong_weak_stale_and_what_to_review():
    progress = Progress().with_review(
        review("concept/q33", 0.5, NOW - timedelta(days=90), number=2)
    )
    progress = progress.with_review(review("concept/q07", 0.9, NOW - timedelta(days=1), number=4))
    answers = [
        review("concept/q02", 0.8, mechanism=4, version=0),
        review("concept/q24", 0.3, mechanism=3, version=1),
        review("numeric/kv", 0.0),
        review("trace/itl", 0.0),
        review("fault/amber", 0.0),
    ]
    for answer in answers:
        progress = progress.with_review(answer)
    report = make_report(answers, [], progress, NOW)
    assert report.means["mechanism"] == 3.5
    assert report.strong == ("mechanism",)
    assert report.weak == ("version",)
    assert report.weak_cards == ("concept/q24", "numeric/kv", "trace/itl", "fault/amber")
    assert report.stale == ("concept/q33",)
    assert report.review == (
        *("cutaway learn 4", "cutaway learn 12", "cutaway drill show q24"),
        *("cutaway numbers kv", "cutaway learn 9", "cutaway drill --kind trace"),
        "cutaway drill --kind fault",
    )


def test_an_interview_without_answers_has_an_empty_report():
    report = make_report([], [], Progress(), NOW)
    assert report.means == {}
    assert report.strong == report.weak == report.weak_cards == report.stale == report.review == ()


def test_what_was_passed_on_is_weak_and_to_be_reviewed_but_not_stale():
    old = NOW - timedelta(days=90)
    progress = Progress().with_review(review("concept/q24", 0.5, old, number=2))
    report = make_report([], ["concept/q24", "numeric/kv"], progress, NOW)
    assert report.weak_cards == ("concept/q24", "numeric/kv")
    assert report.review == (
        *("cutaway learn 4", "cutaway learn 12", "cutaway drill show q24"),
        "cutaway numbers kv",
    )
    assert report.stale == ()
