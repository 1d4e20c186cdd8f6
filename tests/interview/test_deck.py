from interview.deck import deck, make
from interview.drills import KINDS, Choice, Number, Open
from interview.questions import load_bank


def test_every_card_makes_a_drill_of_its_kind():
    answers = {"concept": Open, "numeric": Number, "choice": Choice}
    for card in deck():
        drill = make(card.name, 1)
        assert isinstance(drill.answer, answers[card.kind])
        assert (drill.card, drill.topic, drill.level) == (card.name, card.topic, card.level)
        assert (drill.rung, drill.kind) == (card.rung, card.kind)


def test_names_are_unique_and_all_kinds_are_there():
    names = [card.name for card in deck()]
    assert len(names) == len(set(names)) == 2 * len(load_bank()) + 9
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
            assert command.startswith(("cutaway learn ", "cutaway numbers "))
