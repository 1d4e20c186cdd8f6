"""Lessons as pages: the list, and one lesson to read beside the terminal that runs it.

    /learn         all lessons and how far one is
    /learn/11      one lesson: idea, questions, the command that runs it, explanation, picture, kata

Text, pictures and progress are the ones of `cutaway learn`. A page asks, the terminal answers: predictions
are graded there, by a run of one's own. So the explanation, which gives them away, stays folded until then.

Invariant: only files of `lessons` and the learner's progress are read; no experiment is started from here.
"""

import base64
import re
from functools import cache
from pathlib import Path
from urllib.parse import quote

from dash import dcc, html
from dash.development.base_component import Component

from lessons.content import Lesson, Prediction, find_lesson, load_lessons
from lessons.errors import LessonError
from lessons.progress import LessonProgress, Progress, load, progress_path
from lessons.text import Language, say
from workbench.learn_prose import INLINE, SEAM
from workbench.look.words import Words
from workbench.web.library import Library

GLYPHS = {"new": "○", "predicted": "◐", "done": "●"}
TAGS = {"**": html.B, "*": html.Em, "`": html.Code}
DARK = re.compile(r"@media\(prefers-color-scheme:dark\)\{(.*?\})\}")
"""The part of a drawing's style that is for dark ground."""


def page(library: Library, words: Words, lesson: str | None, search: str) -> html.Div:
    """All lessons, or one of them by number or topic; for one that is none, what there is."""
    lang: Language = "zh" if words.lang == "zh" else "en"
    try:
        body = (
            _list(words, lang)
            if lesson is None
            else _lesson(library, words, lang, find_lesson(lesson))
        )
    except LessonError as error:
        body = [html.Div([html.P(error.in_(lang)), _all(words)], className="statebox alarm")]
    return html.Div(body, className="learn")


def prose(markdown: str) -> list[Component]:
    """A lesson's Markdown, which is paragraphs, indented formulas, **bold**, *stress* and `code`."""
    made: list[Component] = []
    for paragraph in re.split(r"\n\s*\n", markdown.strip("\n")):
        if paragraph.startswith("    "):
            made.append(html.Pre("\n".join(line[4:] for line in paragraph.split("\n"))))
        else:
            made.append(html.P(inline(SEAM.sub("", paragraph).replace("\n", " "))))
    return made


def inline(paragraph: str) -> list[str | Component]:
    """**Bold**, *stress* and `code` within a paragraph."""
    parts: list[str | Component] = []
    at = 0
    for found in INLINE.finditer(paragraph):
        parts += [paragraph[at : found.start()], TAGS[found[1]](found[2])]
        at = found.end()
    return [*parts, paragraph[at:]]


@cache
def drawing(path: Path, *, dark: bool) -> str:
    """The lesson's drawing for one theme, as the address of an image; its own style follows the system's."""
    svg = DARK.sub(r"\1" if dark else "", path.read_text(encoding="utf-8"))
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()


# -- the list ----------------------------------------------------------------------------------------------


def _list(words: Words, lang: Language) -> list[Component]:
    progress, told = _progress(lang)
    lessons = load_lessons()
    done = sum(progress.of(lesson.number).state == "done" for lesson in lessons)
    head = [html.H1(words("web.nav.learn")), html.Small(words("web.learn.what"))]
    count = say("list_title", lang, done=done, all=len(lessons))
    note = [count]
    if progress.calibration is not None:
        note.append(say("calibration", lang, score=f"{progress.calibration:.2f}"))
    cards = [_card(lesson, progress.of(lesson.number), lang) for lesson in lessons]
    return [
        html.Header(head, className="runhead"),
        *told,
        html.P(" · ".join(note), className="note"),
        html.Div(cards, className="lessons"),
    ]


def _card(lesson: Lesson, mine: LessonProgress, lang: Language) -> Component:
    text = lesson.prose[lang]
    state = f"{GLYPHS[mine.state]} {say(f'state_{mine.state}', lang)}"
    body = [
        html.Header(
            [html.Span(str(lesson.number), className="number"), html.H3(text.title)],
        ),
        html.P(inline(text.hook)),
        html.Small(f"{state} · {say('minutes', lang, n=lesson.minutes)}"),
    ]
    return dcc.Link(html.Article(body), href=f"/learn/{lesson.number}", className="card lessoncard")


# -- one lesson --------------------------------------------------------------------------------------------


def _lesson(library: Library, words: Words, lang: Language, lesson: Lesson) -> list[Component]:
    progress, told = _progress(lang)
    mine, text = progress.of(lesson.number), lesson.prose[lang]
    state = f"{GLYPHS[mine.state]} {say(f'state_{mine.state}', lang)}"
    minutes = say("minutes", lang, n=lesson.minutes)
    head = [
        html.Span(str(lesson.number), className="number"),
        html.H1(text.title),
        html.Small(f"{state} · {minutes}"),
        _all(words),
    ]
    left = [
        html.P(inline(text.hook), className="hook"),
        _part("idea", lang, prose(text.idea)),
        _part("predict", lang, [html.Ol([_question(p, lang) for p in lesson.predictions])]),
        _part("run", lang, _run(library, words, lesson, mine)),
        _explained(words, lang, lesson, mine),
    ]
    right = [
        _part("kata", lang, prose(text.kata)),
        _part("follow_up", lang, _follow_ups(lesson, lang)),
    ]
    columns = [html.Article(left, className="card"), html.Aside(right, className="card")]
    return [
        html.Header(head, className="runhead"),
        *told,
        html.Div(columns, className="lessonboard"),
    ]


def _part(key: str, lang: Language, body: list[Component]) -> html.Section:
    return html.Section([html.H2(say(key, lang)), *body])


def _question(prediction: Prediction, lang: Language) -> html.Li:
    options = [html.Li(inline(option.in_(lang))) for option in prediction.options]
    unit = prediction.unit.in_(lang)
    answer: list[Component] = [html.Ol(options, className="options")] if options else []
    if not options:
        answer = [html.P(f"… {unit}", className="note")]
    return html.Li([html.B(inline(prediction.ask.in_(lang))), *answer])


def _run(library: Library, words: Words, lesson: Lesson, mine: LessonProgress) -> list[Component]:
    """The command; and the learner's own run of it, if it is still there."""
    made: list[Component] = [
        html.P(words("web.learn.run", s=lesson.seconds)),
        html.Pre(f"cutaway learn {lesson.number}", className="code"),
    ]
    name = Path(mine.run).name if mine.run else None
    if name is not None and any(name == known for known, _, _ in library.runs()):
        link = dcc.Link(
            words("web.learn.replay"), href=f"/replay/{quote(name)}", className="button primary"
        )
        made.append(html.P(link))
    return made


def _explained(words: Words, lang: Language, lesson: Lesson, mine: LessonProgress) -> html.Section:
    caption = lesson.picture.caption.in_(lang)
    file = lesson.folder / ("picture.svg" if lang == "en" else f"picture.{lang}.svg")
    images = [
        html.Img(
            src=drawing(file, dark=dark), alt=caption, className="ondark" if dark else "onlight"
        )
        for dark in (False, True)
    ]
    figure = html.Figure([*images, html.Figcaption(caption)])
    folded = html.Details(
        [
            html.Summary(words("web.learn.folded")),
            figure,
            *prose(lesson.prose[lang].explained),
            html.H3(say("check", lang)),
            html.Ul([html.Li(inline(check.claim.in_(lang))) for check in lesson.checks]),
            html.H3(say("upstream", lang)),
            *_upstream(lesson, lang),
        ],
        open=mine.state == "done",
    )
    return _part("explain", lang, [folded])


def _follow_ups(lesson: Lesson, lang: Language) -> list[Component]:
    return [
        html.Details(
            [html.Summary(inline(asked.ask.in_(lang))), html.P(inline(asked.answer.in_(lang)))]
        )
        for asked in lesson.follow_ups
    ]


def _upstream(lesson: Lesson, lang: Language) -> list[Component]:
    return [
        html.P([html.B(f"{known.system} {known.version} "), *inline(known.text.in_(lang))])
        for known in lesson.upstream
    ]


def _progress(lang: Language) -> tuple[Progress, list[Component]]:
    """What was done, and what to say if the file cannot be read."""
    try:
        return load(progress_path()), []
    except LessonError as error:
        return Progress(), [html.Div(html.P(error.in_(lang)), className="statebox alarm")]


def _all(words: Words) -> dcc.Link:
    return dcc.Link(words("web.learn.all"), href="/learn", className="button")
