"""The why card: one mark explained. What happened, why, who else, what it cost, and the SQL that proves it.

    title      a sentence with a subject: `r22 is preempted`
    what why   at most two sentences each, in the present tense, the reason from the record
    who else   whom it touches          the bill     only if there is one, to scale
    evidence   the question itself, so that anybody can ask it again

A mark comes from the page (`assets/why.mjs`), the story goes back as JSON and is laid out there: a card
changes with every event one walks to, and must be there before one has noticed.

Invariant: nothing is explained that was not recorded; where nothing was, the card says so.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from dash import html

from tracing.reader import Run
from workbench.look.words import Words
from workbench.web.parts import attributes
from workbench.web.views import why_memory, why_request
from workbench.web.views.story import Story
from workbench.web.views.why_facts import Mark, place_of

TELLERS: dict[str, Callable[[Run, Words, Mark], Story]] = {
    "row": why_request.tell_row,
    "wait": why_request.tell_wait,
    "first_token": why_request.tell_first_token,
    "gap": why_request.tell_gap,
    "end": why_request.tell_end,
    "preempt": why_memory.tell_preempt,
    "block": why_memory.tell_block,
    "step": why_memory.tell_step,
}
"""Kind of mark -> who tells its story."""
ABOUT_REQUEST = set(TELLERS) - {"block", "step"}
EVENT_OF = {"preempt": "preemption", "first_token": "first_token"}
"""Marks that are events, which [ and ] walk."""


def view(words: Words) -> html.Aside:
    """The card's place; `assets/why.mjs` fills it."""
    label = attributes(aria_label=words("web.why.name"), aria_live="polite")
    return html.Aside(html.Div(className="whybody"), id="why", className="card why", **label)


def card(run: Run, words: Words, mark: Mark) -> dict[str, Any]:
    """The story of a mark as JSON. Raises TraceError if the run does not answer.

    The mark's kind is one of `TELLERS`, and has a request where it is about one.
    """
    story = TELLERS[mark.kind](run, words, mark)
    story.num_rows = len(run.sql(story.sql, limit=1000).rows)
    if mark.kind in EVENT_OF:
        story.place_of = place_of(run, mark, EVENT_OF[mark.kind])
    return asdict(story)
