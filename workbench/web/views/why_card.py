"""The why card: one mark explained. What happened, why, who else, what it cost, and the SQL that proves it.

    title      a sentence with a subject: `r22 is preempted`
    what why   at most two sentences each, in the present tense, the reason from the record
    who else   whom it touches          the bill     only if there is one, to scale
    evidence   the question itself, so that anybody can ask it again

A mark comes from the page as a store's value (`assets/why.mjs`), the card goes back as the callback's answer.

Invariant: nothing is explained that was not recorded; where nothing was, the card says so.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from dash import Dash, Input, Output, html
from dash.development.base_component import Component

from tracing.errors import TraceError
from tracing.reader import Run
from workbench.look.palette import label_of
from workbench.look.words import Words
from workbench.web.library import Library
from workbench.web.parts import attributes, request_words, sql_link
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
EVENT_OF = {"preempt": "preemption", "first_token": "first_token"}
"""Marks that are events, which [ and ] walk."""
KEYWORDS = {
    *("select", "from", "where", "and", "or", "order", "by", "limit", "join", "using", "in"),
    *("with", "as", "group", "between", "case", "when", "then", "end", "filter", "desc"),
}


def view(words: Words) -> html.Aside:
    """The card while nothing is chosen."""
    return html.Aside(
        empty(words), id="why", className="card why", **attributes(aria_label=words("web.why.name"))
    )


def register(dash: Dash, library: Library) -> None:
    """The callback that explains a mark."""

    @dash.callback(Output("why", "children"), Input("why-mark", "data"), prevent_initial_call=True)
    async def explain(said: dict[str, Any] | None) -> Any:
        words = request_words()
        if said is None:
            return empty(words)
        return await asyncio.to_thread(card, library, words, said)


def empty(words: Words) -> list[Component]:
    """What the card says while nothing is chosen."""
    return [
        html.Header(html.B(words("web.why.name"))),
        html.H2(words("web.why.choose")),
        html.P(words("web.why.choose_how")),
        html.P(words("web.why.choose_keys"), className="note"),
    ]


def card(library: Library, words: Words, said: dict[str, Any]) -> list[Component]:
    """The card of a mark; a mark that cannot be explained says why."""
    name = str(said.get("run"))
    try:
        mark = Mark.read(said)
        story = library.ask(name, lambda run: tell(run, words, mark))
    except (TraceError, ValueError, TypeError, KeyError) as error:
        text = str(error) if isinstance(error, TraceError) else words("web.why.nomark")
        return [_bar(words), html.Div(html.P(text), className="statebox alarm")]
    return lay_out(words, name, story, mark)


def tell(run: Run, words: Words, mark: Mark) -> Story:
    """The story of a mark. Raises TraceError if the run does not answer, KeyError for an unknown kind."""
    story = TELLERS[mark.kind](run, words, mark)
    story.num_rows = len(run.sql(story.sql, limit=1000).rows)
    if mark.kind in EVENT_OF:
        story.place_of = place_of(run, mark, EVENT_OF[mark.kind])
    return story


def lay_out(words: Words, run: str, story: Story, mark: Mark) -> list[Component]:
    """A story as the card's children, in the fixed order of its parts."""
    title = [html.I(className="triangle"), *story.title] if story.is_alarm else story.title
    parts: list[Component] = [
        _bar(words),
        html.H2(title),
        html.P(story.place, className="where"),
        *_part(words, "what", story.what),
        *_part(words, "why", story.why),
        *_part(words, "who", story.who),
    ]
    if story.bill:
        kept, again = story.bill
        bar = html.Div(
            [html.I(style={"flexGrow": kept}), html.I(style={"flexGrow": again})],
            className=f"bill {story.hue}",
            **attributes(aria_hidden="true"),
        )
        parts += _part(words, "bill", [bar, *story.bill_text])
    parts += _evidence(words, run, story)
    parts.append(_buttons(words, run, story, mark))
    return parts


def _bar(words: Words) -> html.Header:
    return html.Header(
        [
            html.B(words("web.why.name")),
            html.Span("", className="pinned"),
            html.Button(
                html.Kbd("["), title=words("web.play.previous"), **attributes(data_do="previous")
            ),
            html.Button(html.Kbd("]"), title=words("web.play.jump"), **attributes(data_do="jump")),
            html.Button(
                "×", title=words("web.why.close"), className="x", **attributes(data_do="close")
            ),
        ]
    )


def _part(words: Words, name: str, sentences: list[Any]) -> list[Component]:
    if not sentences:
        return []
    body = [s if isinstance(s, html.Div) else html.P(s) for s in sentences]
    return [html.Section([html.H3(words(f"web.why.{name}")), *body])]


def _evidence(words: Words, run: str, story: Story) -> list[Component]:
    rows = html.Small(words("web.why.rows", n=story.num_rows))
    head = html.H3([words("web.why.evidence"), rows])
    return [html.Section([head, html.Pre(highlight(story.sql), className="sql")])]


def _buttons(words: Words, run: str, story: Story, mark: Mark) -> html.Footer:
    buttons: list[Component] = []
    if mark.request is not None:
        act = attributes(data_act="follow", data_request=str(mark.request))
        text = words("web.why.follow", who=label_of(mark.request))
        buttons.append(html.Button(text, className="primary", **act))
    buttons.append(sql_link(run, story.sql, words("web.why.opensql"), className="button"))
    if story.place_of:
        place, count = story.place_of
        text = words("web.why.place", place=f"{place:,}", count=f"{count:,}")
        buttons.append(html.Small(text))
    return html.Footer(buttons)


def highlight(sql: str) -> list[Any]:
    """SQL with its keywords bold; text stays text."""
    parts: list[Any] = []
    for line in sql.splitlines(keepends=True):
        for i, word in enumerate(line.split(" ")):
            parts.append(" " if i else "")
            parts.append(html.B(word) if word.strip().lower() in KEYWORDS else word)
    return parts
