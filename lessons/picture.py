"""A lesson's picture as data: marks on lanes, taken from a run by the lesson's own query.

    lane, start, length, kind, request     one mark; the axis counts steps or tokens, never time, so that
                                           every run of an experiment gives the same picture

`picture.json` beside a lesson holds the marks of a run of its experiment, and says which engine
made it. How marks look is not said here: terminal and web draw them as they can.

Invariant: a picture shows recorded facts only; a run of `experiment.py` gives the marks of
`picture.json` again.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from lessons.content import Lesson
from lessons.errors import LessonError
from lessons.text import Language, both, say
from tracing.reader import Run

Kind = Literal["cached", "prefill", "decode", "waste", "queue", "away", "preempted", "token"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing on a lane, [start, start + length) on the axis."""

    lane: str
    start: int
    length: int
    """0: a moment."""
    kind: Kind
    request: int
    """Number in the order of arrival at its engine; gives the hue."""
    label: str


@dataclass(frozen=True, slots=True)
class Picture:
    """Marks in the order in which they are drawn; lanes in the order in which they come."""

    marks: tuple[Mark, ...]
    source: str
    """The run: model, engine version, versions followed."""

    @property
    def lanes(self) -> list[str]:
        """Names from top to bottom."""
        return list(dict.fromkeys(mark.lane for mark in self.marks))

    @property
    def end(self) -> int:
        """Where the axis ends."""
        return max(mark.start + max(1, mark.length) for mark in self.marks)


def lane_name(lane: str, language: Language) -> str:
    """A lane as people read it; `static 1` is a word of the catalogue and a number, `64` only a number."""
    word, _, number = lane.rpartition(" ")
    return f"{say(f'lane_{word}', language)} {number}" if word else number


def draw_from(lesson: Lesson, run: Run) -> Picture:
    """The lesson's picture of a run. Raises LessonError if the run has nothing to draw."""
    rows = run.sql(lesson.picture.query).dicts()
    if not rows:
        raise LessonError(both("nothing_to_draw", n=lesson.number))
    marks = tuple(
        Mark(
            lane=row["lane"],
            start=int(row["start"]),
            length=int(row["length"]),
            kind=row["kind"],
            request=int(row["request_id"]) & 0xFFFFFFFF,
            label=row["label"],
        )
        for row in rows
    )
    said = run.sql("SELECT model, config->>'$.versions' AS versions FROM run").dicts()[0]
    versions = ", ".join(f"{name} {v}" for name, v in json.loads(said["versions"]).items())
    return Picture(marks, f"{Path(said['model']).name}; {versions}")


def load_picture(lesson: Lesson) -> Picture:
    """The picture that comes with a lesson. Raises LessonError if it cannot be read."""
    path = lesson.folder / "picture.json"
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return Picture(tuple(Mark(*mark) for mark in raw["marks"]), raw["source"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LessonError(f"{path} is not a picture: {error}") from error


def save_picture(lesson: Lesson, picture: Picture) -> None:
    """Put a picture beside its lesson, one mark a line."""
    marks = ",\n".join(
        json.dumps([m.lane, m.start, m.length, m.kind, m.request, m.label], ensure_ascii=False)
        for m in picture.marks
    )
    text = f'{{"source": {json.dumps(picture.source)}, "marks": [\n{marks}\n]}}\n'
    (lesson.folder / "picture.json").write_text(text, encoding="utf-8")
