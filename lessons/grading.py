"""Grading: what was predicted, seen and claimed, held against the learner's own run.

There is no answer sheet. The truth of a prediction is a query on the run that the learner has just
made; a check is a query that finds counter-examples; a guided stop is a sentence filled from the
run. So a lesson cannot teach what this engine does not do.

Invariant: the same run always gives the same grades, in either language. An empty run passes
nothing: the first check of each lesson says that the experiment took place.
"""

import re
from dataclasses import dataclass
from typing import Any

from lessons.content import Check, Lesson, Prediction, Stop
from lessons.errors import LessonError
from lessons.text import Language, both
from tracing.reader import Run

LETTERS = "abcdefgh"
NUMBER = re.compile(
    r"(?P<number>[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+(?:_\d+)*)(?:\.\d*)?|\.\d+))\s*(?P<unit>.*)"
)
PERCENT = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)\s*[%％]?")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A prediction beside the fact."""

    right: bool
    truth: float | str
    """A number, or the letter of the right option."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A check and what came of it."""

    check: Check
    counter_example: dict[str, Any] | None
    """Columns of the smallest one; None: the claim holds."""

    @property
    def holds(self) -> bool:
        """Whether the run is as claimed."""
        return self.counter_example is None

    def but(self, language: Language) -> str:
        """The counter-example as a sentence; empty if there is none."""
        if self.counter_example is None:
            return ""
        return self.check.but.in_(language).format(**_shown(self.counter_example))


@dataclass(frozen=True, slots=True)
class Sight:
    """A guided stop with its sentence filled in."""

    sentence: str
    step: int | None
    """Where to look; None: nowhere in particular."""
    engine: int


def read_answer(prediction: Prediction, line: str) -> float | str | None:
    """What the learner typed as a number or a letter; None if it is neither.

    Behind a number only its own unit may stand, in either language, or a bare 个 where things are counted:
    what is not understood whole (8k, 1e3, 23040 bytes) is asked again, not read halfway.
    """
    line = line.strip().lower().replace("％", "%")
    if prediction.options:
        letters = LETTERS[: len(prediction.options)]
        return line if len(line) == 1 and line in letters else None
    found = NUMBER.fullmatch(line)
    if found is None or _bare(found["unit"]) not in _units(prediction):
        return None
    return float(found["number"].replace(",", "").replace("_", ""))


def read_confidence(line: str) -> float | None:
    """Percent, 0 to 100, as typed; nothing means no idea, 50. None if it is not that.

    A number between 0 and 1 is returned as it stands: whoever asks should ask again, for 0.7 may mean 70.
    """
    found = PERCENT.fullmatch(line.strip() or "50")
    if found is None:
        return None
    percent = float(found["number"])
    return percent if percent <= 100 else None


def judge(prediction: Prediction, answer: float | str, run: Run) -> Verdict:
    """Hold an answer against the run. Raises LessonError if the run does not contain what was asked."""
    rows = run.sql(prediction.truth).rows
    if not rows or rows[0][0] is None:
        raise LessonError(both("truth_missing", id=prediction.id))
    truth = rows[0][0]
    if prediction.options:
        return Verdict(answer == truth, str(truth))
    off = abs(float(answer) - float(truth))
    return Verdict(off <= prediction.within * abs(float(truth)) + 1e-9, float(truth))


def run_checks(lesson: Lesson, run: Run) -> tuple[Outcome, ...]:
    """All checks of a lesson on a run, in the order of the file."""
    outcomes = []
    for check in lesson.checks:
        rows = run.sql(check.query).dicts()
        outcomes.append(Outcome(check, rows[0] if rows else None))
    return tuple(outcomes)


def look(stop: Stop, run: Run, language: Language) -> Sight | None:
    """A stop's sentence from the run; None if this run has no such moment."""
    rows = run.sql(stop.query).dicts()
    if not rows:
        return None
    row = rows[0]
    sentence = stop.text.in_(language).format(**_shown(row))
    return Sight(sentence, row.get("step"), row.get("engine") or 0)


def brier(answers: list[tuple[float, bool]]) -> float | None:
    """Mean of (confidence - outcome) squared, 0 perfect, 0.25 for 'no idea'; None without answers.

    Source: Brier, Verification of forecasts expressed in terms of probability, 1950 (two outcomes,
    one half of his sum).
    """
    if not answers:
        return None
    return sum((sure - right) ** 2 for sure, right in answers) / len(answers)


def plain_number(value: float) -> str:
    """Whole numbers with thousands commas, others to three digits."""
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _units(prediction: Prediction) -> set[str]:
    """What may stand behind a number, bare: nothing, or its unit in either language."""
    units = {"", _bare(prediction.unit.en.lower()), _bare(prediction.unit.zh.lower())}
    if prediction.unit.en.endswith("s"):
        units.add("个")
    return units | ({"percent"} if "%" in units else set())


def _bare(unit: str) -> str:
    """Without blanks, plural and measure word: "个 tokens" and "token" are one; a lone 个 stays."""
    unit = "".join(unit.split()).removesuffix("s")
    return unit.removeprefix("个") or unit


def _shown(row: dict[str, Any]) -> dict[str, str]:
    return {
        name: plain_number(value) if isinstance(value, int | float) else str(value)
        for name, value in row.items()
    }
