"""What a learner has done: one JSON file, written whole or not at all.

    learn.json    {"format": 1, "lessons": {"12": {"answers": [...], "run": "...", "checked": "...", ...}}}

It lies in $CUTAWAY_HOME, else under `cutaway` in the user's data folder (XDG_DATA_HOME or
~/.local/share), and the learner's katas lie beside it.

Invariant: a file that cannot be read is never overwritten; it is copied aside and the error says where.
Source: XDG Base Directory Specification 0.8.
"""

import json
import os
import zlib
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from lessons.errors import LessonError
from lessons.grading import brier
from lessons.text import both

FORMAT = 1
State = Literal["new", "predicted", "done"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One prediction."""

    id: str
    value: float | str
    sure: float
    """Confidence, 0 to 1."""
    right: bool
    at: str
    """UTC, ISO 8601."""


@dataclass(frozen=True, slots=True)
class LessonProgress:
    """What was done in one lesson."""

    answers: tuple[Answer, ...] = ()
    run: str | None = None
    """Folder of the newest run of its experiment."""
    checked: str | None = None
    """When its run first passed all checks, UTC."""
    kata: str | None = None
    """When its kata first passed, UTC."""

    @property
    def state(self) -> State:
        """Done: predicted, and a run of one's own passed the checks."""
        if not self.answers:
            return "new"
        return "done" if self.checked else "predicted"

    @property
    def first_answers(self) -> list[tuple[float, bool]]:
        """(confidence, right) of the first answer to each question: later ones know too much."""
        first: dict[str, tuple[float, bool]] = {}
        for answer in self.answers:
            first.setdefault(answer.id, (answer.sure, answer.right))
        return list(first.values())


@dataclass(frozen=True, slots=True)
class Progress:
    """All lessons of one learner, by number."""

    lessons: dict[int, LessonProgress] = field(default_factory=dict)

    def of(self, number: int) -> LessonProgress:
        """What was done in a lesson."""
        return self.lessons.get(number, LessonProgress())

    def with_answers(self, number: int, answers: list[Answer], run: Path) -> "Progress":
        """After predictions were made and the experiment ran."""
        old = self.of(number)
        return self._set(number, replace(old, answers=(*old.answers, *answers), run=str(run)))

    def with_check(self, number: int) -> "Progress":
        """After a run passed all checks; the first time counts."""
        old = self.of(number)
        return self._set(number, replace(old, checked=old.checked or now()))

    def with_kata(self, number: int) -> "Progress":
        """After the kata passed; the first time counts."""
        old = self.of(number)
        return self._set(number, replace(old, kata=old.kata or now()))

    @property
    def calibration(self) -> float | None:
        """Brier score over all first answers; None without any."""
        return brier([pair for done in self.lessons.values() for pair in done.first_answers])

    def _set(self, number: int, done: LessonProgress) -> "Progress":
        return Progress(self.lessons | {number: done})


def now() -> str:
    """This moment, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def home_folder() -> Path:
    """Where progress and katas are kept."""
    if home := os.environ.get("CUTAWAY_HOME"):
        return Path(home)
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "cutaway"


def progress_path() -> Path:
    """The learner's file."""
    return home_folder() / "learn.json"


def load(path: Path) -> Progress:
    """Read progress; empty if there is none.

    Raises LessonError for a damaged file, after copying it aside, and for one of a newer version.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Progress()
    except OSError as error:
        raise LessonError(both("progress_unread", path=path, why=error.strerror)) from error
    try:
        raw = json.loads(content)
        if raw["format"] > FORMAT:
            raise LessonError(both("progress_newer", path=path, format=raw["format"], known=FORMAT))
        return Progress({int(n): _lesson(entry) for n, entry in raw["lessons"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        copy = _set_aside(path, content)
        why = f"{type(error).__name__}: {error}"
        raise LessonError(both("progress_damaged", path=path, why=why, copy=copy)) from error


def save(path: Path, progress: Progress) -> None:
    """Write progress so that a reader sees the old file or the new one. Raises LessonError if it cannot."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(to_json(progress), indent=1, ensure_ascii=False) + "\n")
        os.replace(draft, path)
    except OSError as error:
        raise LessonError(both("progress_unwritten", path=path, why=error.strerror)) from error


def reset(path: Path) -> Path | None:
    """Begin anew; what was there is moved aside, and its new place returned."""
    if not path.exists():
        return None
    old = path.with_name(f"{path.name}.old")
    os.replace(path, old)
    return old


def to_json(progress: Progress) -> dict[str, Any]:
    """Plain values, as they are stored and exported."""
    lessons = {str(n): asdict(done) for n, done in sorted(progress.lessons.items())}
    return {"format": FORMAT, "lessons": lessons}


def _lesson(raw: dict[str, Any]) -> LessonProgress:
    answers = tuple(Answer(**answer) for answer in raw["answers"])
    if not all(0 <= answer.sure <= 1 for answer in answers):
        raise ValueError("a confidence is not between 0 and 1")
    return LessonProgress(**(raw | {"answers": answers}))


def _set_aside(path: Path, content: bytes) -> Path:
    """Keep a damaged file's content; named by it, so that looking twice makes one copy."""
    copy = path.with_name(f"{path.name}.damaged-{zlib.crc32(content):08x}")
    try:
        copy.write_bytes(content)
    except OSError as error:
        raise LessonError(
            both("progress_uncopied", path=path, copy=copy, why=error.strerror)
        ) from error
    return copy
