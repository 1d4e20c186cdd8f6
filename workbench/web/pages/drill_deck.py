"""The deck of drills as a page: narrowed by topic, kind and level; what is due comes first.

Invariant: an address says everything that the page depends on, but for the learner's progress.
"""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qs, quote, urlencode

from dash import dcc, html
from dash.development.base_component import Component

from interview import spacing
from interview.deck import Card, deck, in_order
from interview.drills import KINDS
from interview.errors import DrillError
from interview.phrases import fill, say
from interview.progress import Progress, load, progress_path
from interview.questions import TOPICS
from interview.text import Language
from workbench.look.words import Words

LEVELS = ("1", "2", "3")
NARROWED = ("topic", "kind", "level")
COLUMNS = ("title", "kind", "topic", "level", "due")
COMMANDS = ("cutaway drill mock", "cutaway drill plan --date YYYY-MM-DD")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page is about: in which language, which part of the deck, and which seed."""

    words: Words
    lang: Language
    narrowed: dict[str, str]
    seed: int

    @classmethod
    def of(cls, words: Words, search: str | None) -> "Asked":
        """As an address says it; what makes no sense there is left out."""
        said = {name: values[0] for name, values in parse_qs((search or "").lstrip("?")).items()}
        seed = said.get("seed", "")
        is_seed = seed.isascii() and seed.isdigit() and len(seed) < 10
        return cls(
            words,
            "zh" if words.lang == "zh" else "en",
            {name: said[name] for name in NARROWED if said.get(name)},
            int(seed) if is_seed else 1,
        )


def deck_page(asked: Asked) -> list[Component]:
    """All cards that fit. Raises DrillError if none does, or progress cannot be read."""
    words, now = asked.words, datetime.now(UTC)
    progress = load(progress_path())
    cards = in_order(fitting(asked), progress, now)
    seen = [progress.cards[card.name] for card in cards if card.name in progress.cards]
    num_due = sum(spacing.due(state) <= now for state in seen)
    head = [
        html.H1(words("web.nav.drill")),
        html.Small(words("web.drill.what")),
        dcc.Link(
            words("web.drill.start"),
            href=address(asked, cards[0].name),
            className="button primary",
        ),
    ]
    counts = words("web.drill.counts", n=len(cards), due=num_due, new=len(cards) - len(seen))
    columns = html.Tr([html.Th(words(f"web.drill.{column}")) for column in COLUMNS])
    rows = [_row(asked, card, progress, now) for card in cards]
    commands = [html.Code(command) for command in COMMANDS]
    return [
        html.Header(head, className="runhead"),
        html.Div([_choice(asked, name) for name in NARROWED], className="narrow"),
        html.P(counts, className="note"),
        html.Table([html.Thead(columns), html.Tbody(rows)], className="card deck"),
        html.P([words("web.drill.terminal"), *commands], className="note"),
    ]


def fitting(asked: Asked) -> list[Card]:
    """Cards of this topic, kind and level. Raises DrillError if there are none."""
    narrowed = asked.narrowed
    cards = [
        card
        for card in deck()
        if narrowed.get("topic") in (None, card.topic)
        and narrowed.get("kind") in (None, card.kind)
        and narrowed.get("level") in (None, str(card.level))
    ]
    if not cards:
        raise DrillError(fill("nothing_fits", topics=", ".join(TOPICS), kinds=", ".join(KINDS)))
    return cards


def _choice(asked: Asked, name: str) -> html.Nav:
    """One way of narrowing the deck: a link for each value, and one for all."""
    lang = asked.lang
    every: dict[str, dict[str, str]] = {
        "topic": {key: text.in_(lang) for key, text in TOPICS.items()},
        "kind": {kind: say(f"kind_{kind}", lang) for kind in KINDS},
        "level": {level: level for level in LEVELS},
    }
    rest: dict[str, str] = {key: value for key, value in asked.narrowed.items() if key != name}
    links = [  # whole pages: Dash's own links follow a path, not a query
        html.A(
            text,
            href=f"/drill?{urlencode(rest | ({name: value} if value else {}))}",
            className="here" if asked.narrowed.get(name, "") == value else "",
        )
        for value, text in {"": asked.words("web.drill.all"), **every[name]}.items()
    ]
    return html.Nav([html.Span(asked.words(f"web.drill.{name}")), *links])


def _row(asked: Asked, card: Card, progress: Progress, now: datetime) -> html.Tr:
    state = progress.cards.get(card.name)
    when: str | Component = asked.words("web.drill.new")
    if state is not None:
        due = spacing.due(state)
        when = html.B(asked.words("web.drill.now")) if due <= now else due.date().isoformat()
    cells: list[str | Component] = [
        dcc.Link(card.title.in_(asked.lang), href=address(asked, card.name)),
        say(f"kind_{card.kind}", asked.lang),
        TOPICS[card.topic].in_(asked.lang),
        str(card.level),
        when,
    ]
    return html.Tr([html.Td(cell) for cell in cells])


def address(asked: Asked, card: str) -> str:
    """A drill with a seed of its own, so that the address shows the same one again."""
    query = {"seed": random.randrange(10**9), **asked.narrowed}
    return f"/drill/{quote(card)}?{urlencode(query)}"
