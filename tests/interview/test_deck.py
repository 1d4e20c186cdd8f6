from interview.deck import deck, make, trace_cards
from interview.drills import KINDS, Choice, Number, Open
from interview.questions import load_bank
from interview.traced.runs import fault_runs


def test_every_card_makes_a_drill_of_its_kind():
    answers = {
        "concept": Open,
        "numeric": Number,
        "choice": Choice,
        "trace": Choice,
        "fault": Choice,
    }
    for card in deck():
        drill = make(card.name, 1)
        assert isinstance(drill.answer, answers[card.kind])
        assert (drill.card, drill.topic, drill.level) == (card.name, card.topic, card.level)
        assert (drill.rung, drill.kind, drill.title) == (card.rung, card.kind, card.title)


def test_names_are_unique_and_all_kinds_are_there():
    names = [card.name for card in deck()]
    traced = len(trace_cards()) + len(fault_runs())
    assert len(names) == len(set(names)) == 2 * len(load_bank()) + 9 + traced
    assert {card.kind for card in deck()} == set(KINDS)


def test_easy_cards_come_first():
    levels = [card.level for card in deck()]
    assert levels == sorted(levels)


def test_a_choice_has_one_key_point_among_misconceptions():
    for question in load_bank().values():
        places = set()
        for seed in range(12):
            choice = make(f"choice/{question.id}", seed).answer
            assert isinstance(choice, Choice)
            assert len(choice.options) == len(set(choice.options)) == len(choice.replies) >= 3
            points = {point.text for point in question.points}
            right = [option in points for option in choice.options]
            assert right.index(True) == choice.right
            assert sum(right) == 1
            places.add(choice.right)
        assert len(places) > 1, "the right one must not always stand in one place"


def test_evidence_names_commands():
    for card in deck():
        for command in make(card.name, 0).evidence:
            assert command.startswith(("cutaway learn ", "cutaway numbers ", "cutaway trace "))


def test_without_runs_there_are_no_cards_about_runs(monkeypatch, tmp_path):
    monkeypatch.setattr("interview.traced.runs.TRACES", tmp_path)
    assert {card.kind for card in deck()} == {"concept", "choice", "numeric"}
