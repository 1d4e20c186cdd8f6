"""All drills that there are, as cards that can be drawn: the bank's questions, its statements, the numbers.

The idea: a deck is a list of cards without their parameters; a drill is made from a card and a seed when it
is asked. So spaced repetition keeps one card per idea, while its numbers are new each time.

Invariant: card names are stable; progress files refer to them.
Source: none.
"""

import random
from dataclasses import dataclass

from interview import numeric
from interview.drills import Choice, Drill, Kind, Open
from interview.numbers import EXAMPLES
from interview.numeric import NUMERIC
from interview.phrases import phrases
from interview.questions import RUNGS, Question, Rung, load_bank
from interview.text import Text

MAX_OPTIONS = 4


@dataclass(frozen=True, slots=True)
class Card:
    """One entry of the deck."""

    name: str
    kind: Kind
    topic: str
    rung: Rung
    level: int
    title: Text


def deck() -> list[Card]:
    """Every card: easy before hard, then in the order of the interview ladder."""
    cards = []
    for q in load_bank().values():
        cards.append(Card(f"concept/{q.id}", "concept", q.topic, q.rung, q.level, q.title))
        cards.append(Card(f"choice/{q.id}", "choice", q.topic, q.rung, q.level, q.title))
    for spec in NUMERIC:
        title = EXAMPLES[spec.example].title
        name = f"numeric/{spec.example}"
        cards.append(Card(name, "numeric", spec.topic, "number", spec.level, title))
    return sorted(cards, key=lambda card: (card.level, RUNGS.index(card.rung), card.name))


def make(card: str, seed: int) -> Drill:
    """The drill of a card. The seed gives a number its parameters and a choice its order."""
    kind, _, name = card.partition("/")
    match kind:
        case "concept":
            return _concept(load_bank()[name])
        case "choice":
            return _choice(load_bank()[name], seed)
        case _:
            return numeric.make(next(spec for spec in NUMERIC if spec.example == name), seed)


def _evidence(question: Question) -> tuple[str, ...]:
    lessons = tuple(f"cutaway learn {lesson}" for lesson in question.lessons)
    return lessons + tuple(f"cutaway numbers {name}" for name in question.numbers)


def _concept(q: Question) -> Drill:
    return Drill(
        card=f"concept/{q.id}",
        kind="concept",
        topic=q.topic,
        rung=q.rung,
        level=q.level,
        title=q.title,
        question=q.question,
        answer=Open(q),
        evidence=_evidence(q),
    )


def _choice(q: Question, seed: int) -> Drill:
    """One key point among misconceptions about the same question."""
    rng = random.Random(seed)
    point = rng.choice(q.points)
    wrong = rng.sample(q.mistakes, min(len(q.mistakes), MAX_OPTIONS - 1))
    pairs = [(point.text, q.short)] + [(mistake.text, mistake.reply) for mistake in wrong]
    rng.shuffle(pairs)
    options = tuple(text for text, _ in pairs)
    return Drill(
        card=f"choice/{q.id}",
        kind="choice",
        topic=q.topic,
        rung=q.rung,
        level=q.level,
        title=q.title,
        question=phrases()["which_holds"],
        answer=Choice(options, options.index(point.text), tuple(reply for _, reply in pairs)),
        evidence=_evidence(q),
    )
