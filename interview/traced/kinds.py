"""The kinds of trace drills, and how one becomes a drill: a moment is found, its options are shuffled.

Source: none.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from interview.drills import Choice, Drill
from interview.errors import DrillError
from interview.phrases import fill, phrases
from interview.traced import budget, cached, evicted, first_token, itl, misses, victim, waits
from interview.traced.asked import Asked, Source
from tracing.reader import Run

MAX_OPTIONS = 4


@dataclass(frozen=True, slots=True)
class TraceKind:
    """One kind of question about a moment."""

    name: str
    topic: str
    level: int
    lesson: int
    """The lesson behind it."""
    ask: Callable[[Source], Asked | None]
    """None: the run has no such moment."""


TRACE_KINDS = (
    TraceKind("budget", "batching", 1, 9, budget.ask),
    TraceKind("cached", "prefix", 1, 12, cached.ask),
    TraceKind("first-token", "measuring", 1, 9, first_token.ask),
    TraceKind("waits", "batching", 1, 7, waits.ask),
    TraceKind("evicted", "memory", 2, 12, evicted.ask),
    TraceKind("itl", "batching", 2, 9, itl.ask),
    TraceKind("miss", "prefix", 2, 12, misses.ask),
    TraceKind("victim", "memory", 2, 11, victim.ask),
)


def make(kind: TraceKind, seed: int, name: str, run: Run) -> Drill:
    """A drill of this kind about an open run, which commands know as `name`.

    Raises DrillError if the run has no moment of the kind.
    """
    rng = random.Random(seed)
    asked = kind.ask(Source(name, run, rng))
    if asked is None:
        title = phrases()[f"title_{kind.name}"]
        raise DrillError(fill("error_no_moment", run=name, kind=kind.name, title=title))
    statements = [asked.right, *rng.sample(asked.wrong, min(len(asked.wrong), MAX_OPTIONS - 1))]
    rng.shuffle(statements)
    options = tuple(statement.text for statement in statements)
    moment = asked.moment
    where = f"cutaway trace show {name} --step {moment.step}"
    if moment.engine != run.query("summary").dicts()[0]["first_engine"]:
        where += f" --engine {moment.engine}"
    return Drill(
        card=f"trace/{kind.name}",
        kind="trace",
        topic=kind.topic,
        rung="verify",
        level=kind.level,
        title=fill(f"title_{kind.name}"),
        question=fill("trace_of", run=name, question=asked.question),
        answer=Choice(
            options,
            statements.index(asked.right),
            tuple(statement.reply for statement in statements),
        ),
        picture=asked.picture,
        evidence=(where, f"cutaway learn {kind.lesson}"),
        proof=asked.proof,
        moment=moment,
    )
