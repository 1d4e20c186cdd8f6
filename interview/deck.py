"""All drills that there are, as cards that can be drawn: questions, statements, numbers, recorded runs.

The idea: a deck is a list of cards without their parameters; a drill is made from a card and a seed when it
is asked. So spaced repetition keeps one card per idea, while its numbers, or its moment of a run, are new
each time. A fault card is one run, which stays the same.

Invariant: card names are stable; progress files refer to them.
Source: none.
"""

import random
from dataclasses import dataclass
from datetime import datetime

from interview import numeric, spacing
from interview.drills import Choice, Drill, Kind, Open
from interview.numbers import EXAMPLES
from interview.numeric import NUMERIC
from interview.phrases import fill, phrases
from interview.progress import Progress
from interview.questions import RUNGS, Question, Rung, load_bank
from interview.text import Text
from interview.traced import faults, runs
from interview.traced import kinds as traced

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
    """Every card that can be asked here: easy before hard, then in the order of the interview ladder."""
    cards = []
    for q in load_bank().values():
        cards.append(Card(f"concept/{q.id}", "concept", q.topic, q.rung, q.level, q.title))
        cards.append(Card(f"choice/{q.id}", "choice", q.topic, q.rung, q.level, q.title))
    for spec in NUMERIC:
        title = EXAMPLES[spec.example].title
        name = f"numeric/{spec.example}"
        cards.append(Card(name, "numeric", spec.topic, "number", spec.level, title))
    if runs.has_sample():
        cards += trace_cards()
    for run in runs.fault_runs():
        title = fill("title_fault", name=run)
        cards.append(Card(f"fault/{run}", "fault", "measuring", "verify", 3, title))
    return sorted(cards, key=lambda card: (card.level, RUNGS.index(card.rung), card.name))


def trace_cards() -> list[Card]:
    """The cards about moments of a run, easy before hard; any run will do."""
    return [
        Card(f"trace/{k.name}", "trace", k.topic, "verify", k.level, phrases()[f"title_{k.name}"])
        for k in traced.TRACE_KINDS
    ]


def in_order(cards: list[Card], progress: Progress, now: datetime) -> list[Card]:
    """Due cards, least remembered first; then unseen ones in deck order; then the rest by date."""

    def key(card: Card) -> tuple[int, float]:
        state = progress.cards.get(card.name)
        if state is None:
            return 1, 0
        if spacing.due(state) <= now:
            return 0, spacing.recall(state, now)
        return 2, spacing.due(state).timestamp()

    return sorted(cards, key=key)


def make(card: str, seed: int, run: str | None = None) -> Drill:
    """The drill of a card. The seed gives a number its parameters, a choice its order, a run its moment.

    run: for a trace card, the run to ask about; None: the sample. Raises DrillError if it has no such moment,
    and TraceError if there is no such run.
    """
    kind, _, name = card.partition("/")
    match kind:
        case "trace":
            spec = next(spec for spec in traced.TRACE_KINDS if spec.name == name)
            with runs.opened(run) as (shown, asked):
                return traced.make(spec, seed, shown, asked)
        case "fault":
            return faults.make(name, seed)
        case "concept":
            return _concept(load_bank()[name])
        case "choice":
            return _choice(load_bank()[name], seed)
        case _:
            return numeric.make(next(n for n in NUMERIC if n.example == name), seed)


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
