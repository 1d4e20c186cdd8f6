"""What a drill is, whatever makes it: a question, perhaps a picture, a known answer, and what is shown after.

The idea: one format for open questions, numbers and choices, so that terminal, web and spaced repetition need
to know nothing about where a drill came from. A drill made from a recorded run is a choice whose picture and
answer were computed from the run, and whose evidence points to the moment.

Invariant: the answer is fixed before the question is asked; card and seed decide a drill.
Source: none.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from interview.numbers.worked import Worked, show
from interview.quantities import agree, quantities
from interview.questions import Question, Rung
from interview.text import Language, Text

Kind = Literal["concept", "numeric", "choice", "trace", "fault"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MINUTES: dict[Kind, int] = {
    "concept": 5,
    "numeric": 3,
    "choice": 1,
    "trace": 2,
    "fault": 4,
}
"""What a drill of each kind takes, for plans and limits."""
LETTERS = "abcdefgh"


@dataclass(frozen=True, slots=True)
class Open:
    """Answered in prose, marked per key point."""

    question: Question


@dataclass(frozen=True, slots=True)
class Number:
    """Answered with one number."""

    value: float
    unit: str
    """The unit that is asked for; empty for a count."""
    tolerance: float
    """Relative; 0: exactly."""
    derivation: Worked

    def accepts(self, text: str) -> bool | None:
        """Whether the text gives the number; None if it holds none, or one of another kind of unit.

        The unit is optional; with it the number may be in a larger or smaller one.
        """
        sign = -1 if text.strip().startswith(("-", "−")) else 1
        found = quantities(text.strip().lstrip("-−"))
        if not found:
            return None
        expected = quantities(f"{abs(self.value):.10f} {self.unit}")[0]
        if found[0].kind not in ("", expected.kind):
            return None
        return sign * self.value >= 0 and agree(found[0], expected, self.tolerance)

    def shown(self, language: Language) -> str:
        """The right answer, for people."""
        return show(self.value, self.unit, language)


@dataclass(frozen=True, slots=True)
class Choice:
    """Answered with one of several statements."""

    options: tuple[Text, ...]
    right: int
    replies: tuple[Text, ...]
    """For each option what to say when it was chosen."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Where in a recorded run the answer can be seen: what a screen needs for a link."""

    run: str
    """As `cutaway trace show` takes it: a name or a folder."""
    engine: int
    step: int | None
    request_id: int | None = None


@dataclass(frozen=True, slots=True)
class Drill:
    """One thing to ask."""

    card: str
    """What spaced repetition remembers: `concept/q02`, `numeric/kv`, `choice/q02`, `trace/itl`."""
    kind: Kind
    topic: str
    rung: Rung
    level: int
    title: Text
    question: Text
    answer: Open | Number | Choice
    picture: tuple[str, ...] = ()
    """Lines of a fixed-width picture, the same in both languages."""
    evidence: tuple[str, ...] = ()
    """Commands that show the matter."""
    proof: tuple[str, ...] = ()
    """Lines shown with the verdict, of fixed width and the same in both languages: what the run says."""
    moment: Moment | None = None
    """Of a drill made from a recorded run."""
