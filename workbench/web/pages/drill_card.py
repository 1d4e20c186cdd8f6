"""How one drill looks in the browser: asked, answered, marked.

Right is a bold tick, wrong a bold cross; a point that was not made is grey. Each mark stands beside the
sentence that earned it, and the learner may set it right before it is noted.

Invariant: text that the learner wrote is always a child, never markup.
"""

from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dash import dcc, html
from dash.development.base_component import Component

from interview.drills import LETTERS, Choice, Drill, Number, Open
from interview.marking import Marking, mistake_rows, point_rows, shorten
from interview.numbers.worked import show
from interview.phrases import say
from interview.progress import Review
from interview.questions import TOPICS, Question
from interview.text import Language
from workbench.look.words import Words
from workbench.web.pages.learn import inline


def _lang(words: Words) -> Language:
    return "zh" if words.lang == "zh" else "en"


# -- asked -------------------------------------------------------------------------------------------------


def head(words: Words, drill: Drill, back: Component) -> html.Header:
    """Title, where it belongs, and room for the time that is left."""
    lang = _lang(words)
    where = " · ".join(
        (
            say(f"kind_{drill.kind}", lang),
            TOPICS[drill.topic].in_(lang),
            say("level", lang, level=drill.level),
        )
    )
    clock = html.Small(className="countdown", title=words("web.drill.limit"))
    return html.Header(
        [html.H1(drill.title.in_(lang)), html.Small(where), clock, back], className="runhead"
    )


def question(words: Words, drill: Drill) -> list[Component]:
    """What is asked, and its picture."""
    made: list[Component] = [html.P(inline(drill.question.in_(_lang(words))), className="hook")]
    if drill.picture:
        made.append(html.Pre("\n".join(drill.picture)))
    return made


def form(words: Words, drill: Drill, max_length: int, text: str = "") -> list[Component]:
    """Where the answer is given."""
    lang = _lang(words)
    match drill.answer:
        case Choice() as choice:
            return [
                html.Button(
                    [html.Kbd(letter), html.Span(option.in_(lang))],
                    id={"type": "drill-do", "act": f"option-{i}"},
                    className="option",
                )
                for i, (letter, option) in enumerate(zip(LETTERS, choice.options, strict=False))
            ]
        case Number() as number:
            field: Component = dcc.Input(
                id={"type": "drill-number", "name": "number"},
                type="text", autoFocus=True, autoComplete="off", maxLength=60,
                placeholder=words("web.drill.number"),
            )  # fmt: skip
            line = html.Div([field, html.Span(number.unit)], className="numberline")
        case Open():
            line = html.Div(
                dcc.Textarea(
                    id={"type": "drill-text", "name": "text"}, value=text,
                    maxLength=max_length, rows=9, placeholder=words("web.drill.open"),
                )
            )  # fmt: skip
    button = html.Button(
        words("web.drill.answer"), id={"type": "drill-do", "act": "answer"}, className="primary"
    )
    return [line, html.Div(button, className="settings")]


# -- answered ----------------------------------------------------------------------------------------------


def number_verdict(words: Words, number: Number, *, right: bool) -> list[Component]:
    """Whether it is right, and how the number comes about."""
    lang = _lang(words)
    rows = [
        html.Tr(
            [
                html.Td(line.text.in_(lang)),
                html.Td(line.how, className="how"),
                html.Td(html.B(show(line.value, line.unit, lang))),
            ]
        )
        for line in number.derivation
    ]
    return [
        _verdict(lang, number.shown(lang), right=right),
        html.H2(say("derivation", lang)),
        html.Table(html.Tbody(rows), className="derivation"),
    ]


def choice_verdict(words: Words, drill: Drill, choice: Choice, chosen: int) -> list[Component]:
    """Which one holds, why the chosen one does not, and what the run says."""
    lang = _lang(words)
    options = [
        html.Div(
            [
                html.Kbd(letter),
                html.Span(option.in_(lang)),
                html.B("✓" if i == choice.right else "✕" if i == chosen else ""),
            ],
            className=f"option{' right' if i == choice.right else ''}",
        )
        for i, (letter, option) in enumerate(zip(LETTERS, choice.options, strict=False))
    ]
    answer = f"{LETTERS[choice.right]}  {choice.options[choice.right].in_(lang)}"
    made: list[Component] = [*options, _verdict(lang, answer, right=chosen == choice.right)]
    if chosen != choice.right:
        made.append(html.P(choice.replies[chosen].in_(lang)))
    made.append(html.P(choice.replies[choice.right].in_(lang)))
    if drill.proof:
        made += [html.H2(say("proof", lang)), html.Pre("\n".join(drill.proof))]
    return made


def _verdict(lang: Language, answer: str, *, right: bool) -> html.P:
    text = f"✓ {say('right', lang)}" if right else f"✕ {say('wrong', lang, answer=answer)}"
    return html.P(html.B(text), className="verdict", role="status")


# -- marked ------------------------------------------------------------------------------------------------


def correction(words: Words, question: Question, answer: str, marking: Marking) -> list[Component]:
    """The marker's opinion as ticks that the learner sets right, and the model answer to compare with."""
    lang = _lang(words)
    points = [
        {"value": id_, "label": _point(text, dimension, marking.heard.get(id_))}
        for id_, text, dimension in point_rows(question, lang)
    ]
    made: list[Component] = [
        html.Blockquote(answer),
        html.H2(say("key_points", lang)),
        html.P(words("web.drill.set_right"), className="note"),
        _ticks("points", points, list(marking.heard)),
    ]
    wrong = [
        {
            "value": m.id,
            "label": _mistake(m.text.in_(lang), marking.mistakes[m.id], m.reply.in_(lang)),
        }
        for m in mistake_rows(question, marking)
    ]
    if wrong:
        made += [
            html.H2(say("misconceptions", lang)),
            html.P(words("web.drill.strike"), className="note"),
            _ticks("mistakes", wrong, list(marking.mistakes)),
        ]
    note = html.Button(
        words("web.drill.note"), id={"type": "drill-do", "act": "note"}, className="primary"
    )
    return [*made, *_model_answer(lang, question), html.Div(note, className="settings")]


def marks(words: Words, question: Question, answer: str, marking: Marking) -> list[Component]:
    """The five marks, and where an interviewer would ask on."""
    lang = _lang(words)
    cells = [
        html.Div([html.Dt(say(f"dimension_{name}", lang)), html.Dd(str(score))], className="fact")
        for name, score in marking.scores.items()
    ]
    weakest = marking.weakest
    title = say("follow_up", lang, dimension=say(f"dimension_{weakest}", lang))
    return [
        html.Blockquote(answer),
        html.H2(say("scores", lang)),
        html.Dl(cells, className="facts"),
        *_model_answer(lang, question),
        html.H2(title),
        html.P(question.follow_ups[weakest].in_(lang)),
        html.P(
            say(
                *("sources", lang), date=question.checked,
                vllm=question.vllm, sglang=question.sglang,
            ),
            className="note",
        ),
    ]  # fmt: skip


def _model_answer(lang: Language, question: Question) -> list[Component]:
    return [html.H2(say("model_answer", lang)), html.P(question.short.in_(lang))]


def _ticks(name: str, options: list[dict[str, Any]], value: list[str]) -> dcc.Checklist:
    about = {"type": "drill-ticked", "name": name}
    return dcc.Checklist(options=options, value=value, id=about, className="ticks")


def _point(text: str, dimension: str, sentence: str | None) -> html.Span:
    parts: list[Component] = [html.Span(text), html.Small(f" {dimension}")]
    if sentence:
        parts.append(html.Q(shorten(sentence)))
    return html.Span(parts, className="" if sentence is not None else "unheard")


def _mistake(text: str, sentence: str, reply: str) -> html.Span:
    return html.Span([html.B(text), html.Q(shorten(sentence)), html.Span(reply)])


# -- noted -------------------------------------------------------------------------------------------------


def noted(words: Words, review: Review, limit: int, due: datetime) -> list[Component]:
    """How long it took, and when it comes back."""
    lang, took = _lang(words), round(review.seconds)
    told = say("seconds_allowed", lang, seconds=took)
    if review.late:
        told = say("late", lang, seconds=took, over=round(review.seconds - limit))
    return [html.P(f"{told} · {say('next_due', lang, date=due.date())}", className="note")]


def evidence(words: Words, drill: Drill, runs: set[str]) -> list[Component]:
    """Where it can be seen: commands, and the moment of the run if the workbench knows it."""
    made: list[Component] = [html.Code(command) for command in drill.evidence]
    at = drill.moment
    name = None if at is None else Path(at.run).name
    if at is not None and name in runs:
        step = "" if at.step is None else f"?step={at.step}"
        href = f"/replay/{quote(str(name))}{step}"
        made.append(dcc.Link(words("web.drill.moment"), href=href))
    return (
        [html.P([html.B(say("evidence", _lang(words))), *made], className="evidence")]
        if made
        else []
    )
