"""Interview practice as pages: the deck, and one drill to answer.

    /drill?topic=memory&kind=numeric&level=1      the deck, narrowed; what is due comes first
    /drill/concept/q02?seed=7&topic=memory        one drill, by card and seed; the rest says what is next

    question ─► answer ─► verdict, and for an open answer marks ─► corrected ─► noted in the progress file

Cards, marks and progress are the ones of `cutaway drill`, which also has the mock interview and the plan.

Invariant: what is answered is noted once; what is left is not. Nothing but the progress file is written.
"""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from dash import ALL, Dash, Input, Output, State, ctx, dcc, html
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from interview import spacing
from interview.deck import deck, in_order, make
from interview.drills import MINUTES, Choice, Drill, Number, Open
from interview.errors import DrillError
from interview.marking import judge, mark, point_rows
from interview.phrases import fill, say
from interview.progress import Review, load, progress_path, save
from interview.questions import Dimension, Question
from tracing.errors import TraceError
from workbench.look.words import Words
from workbench.web.library import Library
from workbench.web.pages import drill_card
from workbench.web.pages.drill_deck import Asked, address, deck_page, fitting
from workbench.web.parts import attributes, request_words, said

MAX_ANSWER = 8000
"""Characters; three minutes of speech are about 3000."""


def page(library: Library, words: Words, card: str | None, search: str) -> html.Div:
    """The deck, or one drill of it; for a card that is none, what there is."""
    asked = Asked.of(words, search)
    try:
        body = deck_page(asked) if card is None else _one(asked, make(_known(card), asked.seed))
    except DrillError as error:
        body = [_refusal(asked, error.text.in_(asked.lang))]
    return html.Div(body, className="learn drill")


def register(dash: Dash, library: Library) -> None:
    """What an answer does."""

    @dash.callback(
        Output("drill-body", "children"),
        Input({"type": "drill-do", "act": ALL}, "n_clicks"),
        Input({"type": "drill-number", "name": ALL}, "n_submit"),
        State({"type": "drill-number", "name": ALL}, "value"),
        State({"type": "drill-text", "name": ALL}, "value"),
        State({"type": "drill-ticked", "name": ALL}, "value"),
        State({"type": "drill-kept", "name": ALL}, "data"),
        State("address", "pathname"),
        State("address", "search"),
        prevent_initial_call=True,
    )
    async def answer(
        clicks: list[int | None],
        submits: list[int | None],
        numbers: list[str | None],
        texts: list[str | None],
        ticked: list[list[str]],
        kept: list[dict[str, Any]],
        path: str,
        search: str,
    ) -> list[Component]:
        if not any(clicks) and not any(submits):  # new buttons look like a click to Dash
            raise PreventUpdate
        asked = Asked.of(request_words(), search)
        given = Given(
            act=str((ctx.triggered_id or {}).get("act", "answer")),
            text=((numbers or texts or [None])[0] or "").strip(),
            ticked=frozenset(id_ for ids in ticked for id_ in ids or ()),
            kept={name: value for part in kept for name, value in part.items()},
        )
        return await asyncio.to_thread(_replace, library, asked, path, given)


@dataclass(frozen=True, slots=True)
class Given:
    """What the learner did."""

    act: str
    """answer, option-N or note."""
    text: str
    ticked: frozenset[str]
    """Ids of points and mistakes."""
    kept: dict[str, Any]
    """What the page remembers: when it was asked, and an answer that is marked, but not noted."""

    @property
    def seconds(self) -> float:
        """How long the answer took."""
        return float(self.kept.get("seconds") or time.time() - float(self.kept["at"]))


def _replace(library: Library, asked: Asked, path: str, given: Given) -> list[Component]:
    """What stands in the form's place after an act of the learner."""
    try:
        made = make(_known(path.removeprefix("/drill/")), asked.seed)
        if not isinstance(made.answer, Open):
            return _answer(library, asked, made, made.answer, given)
        if given.act == "note":
            return _note(library, asked, made, made.answer.question, given)
        return _mark(asked, made, made.answer.question, given)
    except (DrillError, TraceError) as error:
        text = (
            error.text.in_(asked.lang)
            if isinstance(error, DrillError)
            else said(asked.words, error)
        )
        return [_refusal(asked, text)]


# -- one drill ---------------------------------------------------------------------------------------------


def _one(asked: Asked, made: Drill) -> list[Component]:
    body = [*drill_card.form(asked.words, made, MAX_ANSWER), _keep({"at": time.time()})]
    sheet = [*drill_card.question(asked.words, made), html.Div(body, id="drill-body")]
    about = attributes(data_mount="drill", data_seconds=str(_limit(made)))
    return [
        drill_card.head(asked.words, made, _all(asked)),
        html.Div(sheet, className="card sheet", **about),
    ]


def _answer(
    library: Library, asked: Asked, made: Drill, answer: Number | Choice, given: Given
) -> list[Component]:
    """The verdict on a number or a choice; a number that cannot be read is asked for again."""
    if isinstance(answer, Choice):
        chosen = int(given.act.removeprefix("option-"))
        right, shown = (
            chosen == answer.right,
            drill_card.choice_verdict(asked.words, made, answer, chosen),
        )
    else:
        accepted = answer.accepts(given.text)
        if accepted is None:
            return _again(asked, made, given, say("not_a_number", asked.lang))
        right, shown = accepted, drill_card.number_verdict(asked.words, answer, right=accepted)
    share = float(right)
    return [*shown, *_noted(library, asked, made, given, (share, share), None)]


def _mark(asked: Asked, made: Drill, question: Question, given: Given) -> list[Component]:
    """The marker's opinion of an open answer; it is not noted before the learner has seen it."""
    if not given.text or len(given.text) > MAX_ANSWER:
        key = "web.drill.too_long" if given.text else "web.drill.nothing"
        return _again(asked, made, given, asked.words(key, n=f"{MAX_ANSWER:,}"))
    shown = drill_card.correction(asked.words, question, given.text, mark(question, given.text))
    return [*shown, _keep({"answer": given.text, "seconds": given.seconds})]


def _note(
    library: Library, asked: Asked, made: Drill, question: Question, given: Given
) -> list[Component]:
    """The marks as the learner has set them right."""
    answer = str(given.kept["answer"])
    marking = mark(question, answer)
    ids = [id_ for id_, _, _ in point_rows(question, asked.lang)]
    heard = {id_: marking.heard.get(id_, "") for id_ in ids if id_ in given.ticked}
    believed = {id_: said for id_, said in marking.mistakes.items() if id_ in given.ticked}
    final = judge(question, heard, believed)
    shares = final.share, marking.share
    return [
        *drill_card.marks(asked.words, question, answer, final),
        *_noted(library, asked, made, given, shares, final.scores),
    ]


def _noted(
    library: Library,
    asked: Asked,
    made: Drill,
    given: Given,
    shares: tuple[float, float],
    scores: dict[Dimension, int] | None,
) -> list[Component]:
    """Write the answer down, with the learner's share of the marks and the machine's; say what is next."""
    path = progress_path()
    review = Review(
        card=made.card,
        at=datetime.now(UTC),
        share=shares[0],
        machine_share=shares[1],
        seconds=round(given.seconds, 1),
        late=given.seconds > _limit(made),
        scores=scores,
    )
    progress = load(path).with_review(review)
    save(path, progress)
    cards = in_order(fitting(asked), progress, datetime.now(UTC))
    upcoming = next((card for card in cards if card.name != made.card), cards[0])
    link = html.A(  # a whole page: it may be the same card with another seed
        asked.words("web.drill.next"),
        href=address(asked, upcoming.name),
        className="button primary",
    )
    return [
        *drill_card.noted(
            asked.words, review, _limit(made), spacing.due(progress.cards[made.card])
        ),
        *drill_card.evidence(asked.words, made, {name for name, _, _ in library.runs()}),
        html.Div(link, className="settings"),
    ]


def _again(asked: Asked, made: Drill, given: Given, why: str) -> list[Component]:
    """The form with what was written in it; the clock runs on."""
    form = drill_card.form(asked.words, made, MAX_ANSWER, given.text)
    return [*form, html.P(why, role="alert"), _keep(given.kept)]


def _keep(data: dict[str, Any]) -> dcc.Store:
    return dcc.Store(id={"type": "drill-kept", "name": "kept"}, data=data)


def _limit(made: Drill) -> int:
    return 60 * MINUTES[made.kind]


def _known(card: str) -> str:
    """The name of a card that there is. Raises DrillError."""
    if all(card != known.name for known in deck()):
        raise DrillError(fill("no_such_card", name=card[:60]))
    return card


def _all(asked: Asked) -> dcc.Link:
    query = urlencode(asked.narrowed)
    return dcc.Link(asked.words("web.drill.deck"), href=f"/drill?{query}", className="button")


def _refusal(asked: Asked, text: str) -> html.Div:
    return html.Div([html.P(text), _all(asked)], className="statebox alarm", role="alert")
