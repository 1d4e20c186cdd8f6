"""Lessons as data: the reader of the files in `lessons/NN_topic/`, for terminal and web alike.

    lesson.toml      predictions, stops, follow-ups, what upstream does, and the picture's query
    lesson.md        title, hook, then three headings: idea, explanation, kata       lesson.zh.md: the same
    checks.sql       claims about a run; each query returns counter-examples, smallest first

Invariant: what is loaded is complete in both languages; a file that lacks something is a
LessonError that names it. The engine is never loaded, and no query is run here.
"""

import re
import tomllib
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from lessons.errors import LessonError
from lessons.text import LANGUAGES, Language, Text, both

ROOT = Path(__file__).parent
HEADINGS: dict[Language, tuple[str, str, str]] = {
    "en": ("Idea", "Explained", "Kata"),
    "zh": ("要点", "解释", "编码练习"),
}
CHECK = re.compile(
    r"-- check: (?P<name>\S+)\n-- en: (?P<en>.+)\n-- zh: (?P<zh>.+)\n"
    r"-- en but: (?P<en_but>.+)\n-- zh but: (?P<zh_but>.+)\n(?P<query>(?:(?!-- check:).*\n?)+)"
)
BETWEEN_WIDE = re.compile(r"(?<=[\u2e80-\u9fff\uff00-\uffef])\n(?=[\u2e80-\u9fff\uff00-\uffef])")
"""A line break in Chinese text is no space."""
FOLDER = re.compile(r"(\d\d)_(\w+)")


@dataclass(frozen=True, slots=True)
class Prediction:
    """A question to be answered before the experiment runs."""

    id: str
    ask: Text
    truth: str
    """SELECT of one cell from the learner's own run: a number, or the letter of an option."""
    options: tuple[Text, ...]
    """Empty: the answer is a number."""
    unit: Text
    """Of a number; may be empty."""
    within: float
    """A number is right if it is off by at most this share of the truth."""


@dataclass(frozen=True, slots=True)
class Stop:
    """One place to look at in the run: a sentence, and the query that fills it."""

    query: str
    """One row; its columns fill the sentence. `step` and `engine` say where to look, if they are there."""
    text: Text


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What an interviewer asks next, and an answer."""

    ask: Text
    answer: Text


@dataclass(frozen=True, slots=True)
class Upstream:
    """How a real system does it, in which version, read when."""

    system: str
    version: str
    date: date
    text: Text


@dataclass(frozen=True, slots=True)
class Check:
    """A claim about a run. The query gives counter-examples; none: the claim holds."""

    name: str
    claim: Text
    but: Text
    """The first counter-example as a sentence, to be filled from its columns."""
    query: str


@dataclass(frozen=True, slots=True)
class PictureQuery:
    """What to draw of a run: rows of (lane, start, length, kind, request, label)."""

    query: str
    axis: Text
    caption: Text


@dataclass(frozen=True, slots=True)
class Prose:
    """The text of a lesson in one language, as Markdown without headings and pictures."""

    title: str
    hook: str
    idea: str
    explained: str
    kata: str


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson."""

    number: int
    topic: str
    folder: Path
    minutes: int
    seconds: int
    """About how long the experiment runs on two cores."""
    wrong: Text
    """The mistake that `experiment.py --wrong` builds; its run fails the checks."""
    prose: dict[Language, Prose]
    predictions: tuple[Prediction, ...]
    stops: tuple[Stop, ...]
    checks: tuple[Check, ...]
    follow_ups: tuple[FollowUp, ...]
    upstream: tuple[Upstream, ...]
    picture: PictureQuery

    @property
    def name(self) -> str:
        """Of its folder, as in 12_block_hash_chain."""
        return self.folder.name


@cache
def load_lessons() -> tuple[Lesson, ...]:
    """All lessons in teaching order. Raises LessonError for a file that is not as it should be."""
    folders = sorted(path for path in ROOT.iterdir() if FOLDER.fullmatch(path.name))
    return tuple(read_lesson(folder) for folder in folders)


def find_lesson(text: str) -> Lesson:
    """By number or topic. Raises LessonError that lists what there is."""
    for lesson in load_lessons():
        if text.lstrip("0") == str(lesson.number) or text in (lesson.topic, lesson.name):
            return lesson
    known = ", ".join(f"{lesson.number} {lesson.topic}" for lesson in load_lessons())
    raise LessonError(both("no_lesson", text=repr(text), known=known))


def read_lesson(folder: Path) -> Lesson:
    """One lesson from its folder. Raises LessonError that names the file at fault."""
    found = FOLDER.fullmatch(folder.name)
    if found is None:
        raise LessonError(f"{folder} is not named like a lesson, NN_topic")
    path = folder / "lesson.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        return Lesson(
            number=int(found[1]),
            topic=found[2],
            folder=folder,
            minutes=raw["minutes"],
            seconds=raw["seconds"],
            wrong=Text(**raw["wrong"]),
            prose={language: read_prose(folder, language) for language in LANGUAGES},
            predictions=tuple(_prediction(entry) for entry in raw["predict"]),
            stops=tuple(Stop(e["query"], Text(e["en"], e["zh"])) for e in raw["see"]),
            checks=read_checks(folder / "checks.sql"),
            follow_ups=tuple(
                FollowUp(Text(**e["ask"]), Text(**e["answer"])) for e in raw["follow_up"]
            ),
            upstream=tuple(_upstream(entry) for entry in raw["upstream"]),
            picture=_picture(raw["picture"]),
        )
    except OSError as error:
        raise LessonError(f"{error.filename} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise LessonError(f"{path} is not a complete lesson: {error}") from error


def read_prose(folder: Path, language: Language) -> Prose:
    """lesson.md or lesson.zh.md. Raises LessonError where headings are missing."""
    path = folder / ("lesson.md" if language == "en" else f"lesson.{language}.md")
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^!\[.*\]\(.*\)\n", "", text, flags=re.MULTILINE)
    text = BETWEEN_WIDE.sub("", text)
    parts = re.split(r"^(#{1,2}) (.+)\n", text, flags=re.MULTILINE)
    marks, titles, bodies = parts[1::3], parts[2::3], [body.strip() for body in parts[3::3]]
    if marks != ["#", "##", "##", "##"] or tuple(titles[1:]) != HEADINGS[language]:
        wanted = ", ".join(HEADINGS[language])
        raise LessonError(f"{path} needs a title and the headings {wanted}, in this order")
    return Prose(titles[0], *bodies)


def read_checks(path: Path) -> tuple[Check, ...]:
    """The claims of a checks.sql. Raises LessonError if a part is not a claim."""
    text = path.read_text(encoding="utf-8")
    found = [
        Check(
            m["name"],
            Text(m["en"], m["zh"]),
            Text(m["en_but"], m["zh_but"]),
            m["query"].strip().rstrip(";"),
        )
        for m in CHECK.finditer(text)
    ]
    if not found or len(found) != text.count("-- check:"):
        raise LessonError(
            f"{path}: each check needs the lines check, en, zh, en but, zh but, a query"
        )
    return tuple(found)


def _prediction(raw: dict[str, Any]) -> Prediction:
    return Prediction(
        id=raw["id"],
        ask=Text(**raw["ask"]),
        truth=raw["truth"],
        options=tuple(Text(**option) for option in raw.get("options", ())),
        unit=Text(**raw.get("unit", {"en": "", "zh": ""})),
        within=raw.get("within", 0.0),
    )


def _upstream(raw: dict[str, Any]) -> Upstream:
    return Upstream(raw["system"], raw["version"], raw["date"], Text(raw["en"], raw["zh"]))


def _picture(raw: dict[str, Any]) -> PictureQuery:
    return PictureQuery(raw["query"], Text(**raw["axis"]), Text(**raw["caption"]))
