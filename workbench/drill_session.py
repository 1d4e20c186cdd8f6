"""Asking drills one after another: read an answer, judge it, show why, note what it was worth.

Answers come line by line from anywhere, so a pipe is as good as a person. An open answer ends with an empty
line; it is marked by the machine and corrected by the learner, who knows best what was meant.

Invariant: what is not answered is not noted; `:skip` and `:quit` leave no trace.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from interview.drills import LETTERS, MINUTES, Choice, Drill, Number, Open
from interview.errors import DrillError
from interview.marking import Marking, judge, mark, mistake_rows, point_rows
from interview.phrases import say
from interview.progress import Review
from interview.questions import Question
from interview.text import COLON, half_width
from workbench.drill_reader import SecondReader
from workbench.drill_show import MUTE, Page

SKIP, QUIT = ":skip", ":quit"


class Skipped(Exception):
    """The learner passed on this one."""


class Ended(Exception):
    """The learner wants to stop, or the input has ended."""


@dataclass(frozen=True, slots=True)
class Session:
    """Where questions are shown and answers come from."""

    page: Page
    read_line: Callable[[], str | None]
    """The next line without its end; None when there are no more."""
    seconds: int | None = None
    """Limit per drill; None: what its kind usually takes."""
    reader: SecondReader | None = None
    clock: Callable[[], float] = time.monotonic

    def ask(self, drill: Drill, note: str = "", *, follow_up: bool = False) -> Review:
        """Ask one drill. follow_up: also ask on at the weakest point, as an interviewer would.

        Raises Skipped or Ended when there is no answer.
        """
        limit = self.seconds or 60 * MINUTES[drill.kind]
        allowed = say("seconds_allowed", self.page.language, seconds=limit)
        self.page.question(drill, f"{note}   {allowed}".strip())
        started = self.clock()
        match drill.answer:
            case Open():
                review = self._ask_open(drill, drill.answer.question, started, limit, follow_up)
            case Number():
                review = self._ask_number(drill, drill.answer, started, limit)
            case Choice():
                review = self._ask_choice(drill, drill.answer, started, limit)
        self.page.line()
        self.page.evidence(drill)
        return review

    def _ask_number(self, drill: Drill, number: Number, started: float, limit: int) -> Review:
        if number.unit:
            self.page.say("prompt_number", MUTE, unit=number.unit)
        else:
            self.page.say("prompt_count", MUTE)
        right = number.accepts(self._line())
        while right is None:
            self.page.say("not_a_number")
            right = number.accepts(self._line())
        seconds = self.clock() - started
        self.page.verdict(right=right, answer=number.shown(self.page.language))
        self.page.derivation(number)
        return self._note(drill, seconds, limit, float(right))

    def _ask_choice(self, drill: Drill, choice: Choice, started: float, limit: int) -> Review:
        letters = LETTERS[: len(choice.options)]
        shown = f"{letters[0]}-{letters[-1]}"
        self.page.say("prompt_choice", MUTE, letters=shown)
        line = self._line().lower()
        while len(line) != 1 or line not in letters:
            self.page.say("not_an_option", letters=shown)
            line = self._line().lower()
        seconds = self.clock() - started
        chosen = letters.index(line)
        answer = f"{letters[choice.right]}  {choice.options[choice.right].in_(self.page.language)}"
        self.page.verdict(right=chosen == choice.right, answer=answer)
        self.page.replies(choice, chosen)
        self.page.proof(drill)
        return self._note(drill, seconds, limit, float(chosen == choice.right))

    def _ask_open(
        self, drill: Drill, question: Question, started: float, limit: int, follow_up: bool
    ) -> Review:
        lang = self.page.language
        self.page.say("prompt_open", MUTE)
        answer = self._paragraph()
        marking = mark(question, answer)
        next_up = question.follow_ups[marking.weakest].in_(lang)
        title = say("follow_up", lang, dimension=self.page.dimension(marking.weakest))
        if follow_up:
            self.page.line()
            self.page.line(f"{title}{COLON[self.page.language]}{next_up}", "bold")
            answer = f"{answer}\n\n{self._paragraph(may_be_empty=True)}"
            marking = mark(question, answer)
        seconds = self.clock() - started
        self.page.marking(question, marking)
        corrected = self._self_mark(question, answer, marking)
        self.page.line()
        self.page.heading(say("model_answer", lang), f"cutaway drill show {question.id}")
        self.page.line(question.short.in_(lang))
        if not follow_up:
            self.page.line()
            self.page.line(f"{title}{COLON[self.page.language]}{next_up}")
        self.page.stamp(question)
        return self._note(drill, seconds, limit, marking.share, corrected)

    def _self_mark(self, question: Question, answer: str, marking: Marking) -> Marking:
        """The learner's correction of points and misconceptions; the second reader, if any, speaks first."""
        rows = point_rows(question, self.page.language)
        ids = [id_ for id_, _, _ in rows]
        if self.reader is not None:
            self._second_reading(self.reader, question, answer, marking, ids)
        self.page.say("self_mark", MUTE)
        heard, mistakes = dict(marking.heard), dict(marking.mistakes)
        letters = dict(zip(LETTERS, mistake_rows(question, marking), strict=False))
        for word in half_width(self.read_line() or "").lower().replace(",", " ").split():
            name = word.removeprefix("-")
            if word.startswith("-") and name in letters:
                mistakes.pop(letters[name].id, None)
            elif name.isdecimal() and 1 <= int(name) <= len(ids):
                id_ = ids[int(name) - 1]
                if word.startswith("-"):
                    heard.pop(id_, None)
                else:
                    heard.setdefault(id_, "")
        if (heard, mistakes) == (marking.heard, marking.mistakes):
            return marking
        after = judge(question, heard, mistakes)
        self.page.scores(after)
        return after

    def _second_reading(
        self,
        reader: SecondReader,
        question: Question,
        answer: str,
        marking: Marking,
        ids: list[str],
    ) -> None:
        """Say where the second reader differs; a reader that fails is said and changes nothing."""
        try:
            heard = reader.read(question, answer)
        except DrillError as error:
            self.page.line(error.text.in_(self.page.language))
            return
        for key, differing in (
            ("reader_more", heard - set(marking.heard)),
            ("reader_less", set(marking.heard) - heard),
        ):
            if differing:
                numbers = sorted(ids.index(id_) + 1 for id_ in differing)
                self.page.say(key, points=", ".join(str(number) for number in numbers))

    def _note(
        self,
        drill: Drill,
        seconds: float,
        limit: int,
        machine_share: float,
        corrected: Marking | None = None,
    ) -> Review:
        late = seconds > limit
        if late:
            over = round(seconds - limit)
            self.page.say("late", MUTE, seconds=round(seconds), over=over)
        return Review(
            card=drill.card,
            at=datetime.now(UTC),
            share=machine_share if corrected is None else corrected.share,
            machine_share=machine_share,
            seconds=round(seconds, 1),
            late=late,
            scores=None if corrected is None else corrected.scores,
        )

    def _paragraph(self, *, may_be_empty: bool = False) -> str:
        """Lines up to an empty one. The first may not be empty unless nothing needs to be said."""
        lines: list[str] = []
        while True:
            line = self.read_line()
            if line is None and not lines and not may_be_empty:
                raise Ended
            if line is None or (not line.strip() and (lines or may_be_empty)):
                return "\n".join(lines)
            self._check(line)
            if line.strip():
                lines.append(line)

    def _line(self) -> str:
        line = self.read_line()
        if line is None:
            raise Ended
        self._check(line)
        return line.strip()

    @staticmethod
    def _check(line: str) -> None:
        command = half_width(line).replace(" ", "")  # a Chinese keyboard types a wide colon
        if command == SKIP:
            raise Skipped
        if command == QUIT:
            raise Ended
