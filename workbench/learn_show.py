"""How a lesson looks in a terminal: grey around, the question bold, hue only for requests.

Right is a bold tick, wrong a bold cross; neither is green or red, which is kept for preemption.
Nothing blinks, nothing is boxed, and every picture is from a run.
"""

import shutil

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lessons.content import Lesson, Prediction
from lessons.grading import LETTERS, Outcome, Sight, Verdict, brier, plain_number
from lessons.picture import Kind, Mark, Picture, lane_name
from lessons.progress import Answer, LessonProgress, Progress
from lessons.text import Language, say
from workbench.learn_prose import paragraphs, wrap
from workbench.look.palette import hue_index, palette

MUTE = "bright_black"
STATES = {"new": "○", "predicted": "◐", "done": "●"}
GLYPHS: dict[Kind, str] = {
    "cached": "░",
    "prefill": "▒",
    "decode": "▅",
    "waste": "╱",
    "queue": "·",
    "away": "┄",
    "preempted": "✕",
    "token": "◆",
}


class Page:
    """A console and a language."""

    def __init__(self, language: Language) -> None:
        self.language = language
        width = min(shutil.get_terminal_size((100, 24)).columns, 100)
        self.console = Console(width=width, highlight=False)

    # -- lines -------------------------------------------------------------------------------------

    def line(self, text: str = "", style: str = "", indent: int = 1) -> None:
        """One paragraph, as it is; nothing is an empty line."""
        for line in wrap(Text(text, style=style), self.console.width - indent - 1):
            self.console.print(Text(" " * indent) + line)

    def marked(self, holds: bool, text: str, style: str = "") -> None:
        """A bold tick or cross and a paragraph beside it."""
        lines = wrap(Text(text, style=style), self.console.width - 4)
        for i, line in enumerate(lines):
            mark = "✓" if holds else "✕"
            self.console.print(Text(f" {mark} " if i == 0 else "   ", style="bold") + line)

    def say(self, key: str, style: str = "", **values: object) -> None:
        """One of the lessons' own sentences."""
        self.line(say(key, self.language, **values), style)

    def prose(self, text: str) -> None:
        """Markdown of a lesson."""
        for line in paragraphs(text, self.console.width - 2):
            self.console.print(Text(" ") + line)

    def heading(self, key: str, note: str = "") -> None:
        """A part's name in a rule, a note at its right."""
        title = Text(f" {say(key, self.language)} ", style="bold")
        rest = max(1, self.console.width - title.cell_len - Text(note).cell_len - 2)
        self.console.print()
        self.console.print(title + Text(f"{'─' * rest} {note}", style=MUTE))

    # -- a lesson's parts --------------------------------------------------------------------------

    def lessons(self, lessons: tuple[Lesson, ...], progress: Progress) -> None:
        """The list: mark, number, title, minutes, calibration."""
        done = sum(progress.of(lesson.number).state == "done" for lesson in lessons)
        self.console.print()
        self.say("list_title", "bold", done=done, all=len(lessons))
        table = Table(box=None, show_header=False, padding=(0, 1))
        for justify in ("left", "right", "left", "left", "right", "right"):
            table.add_column(justify=justify, no_wrap=True)
        for lesson in lessons:
            mine = progress.of(lesson.number)
            score = brier(mine.first_answers)
            state = say(f"state_{mine.state}", self.language)
            table.add_row(
                STATES[mine.state],
                str(lesson.number),
                Text(lesson.prose[self.language].title, style="bold"),
                Text(state + (" ✓" if mine.kata else ""), style=MUTE),
                Text(say("minutes", self.language, n=lesson.minutes), style=MUTE),
                Text("–" if score is None else f"{score:.2f}", style=MUTE),
            )
        self.console.print(table)
        if progress.calibration is not None:
            self.say("calibration", MUTE, score=f"{progress.calibration:.2f}")
        self.say("list_hint", MUTE)

    def opening(self, lesson: Lesson, mine: LessonProgress) -> None:
        """Number, title, parts, and the hook."""
        prose = lesson.prose[self.language]
        chip = Text(f" {lesson.number} ", style="reverse")
        self.console.print()
        self.console.print(chip + Text(f" {prose.title}", style="bold"))
        state = f"{STATES[mine.state]} {say(f'state_{mine.state}', self.language)}"
        self.line(f"{say('parts', self.language)}   {state}", MUTE)
        self.line()
        self.prose(prose.hook)

    def idea(self, lesson: Lesson) -> None:
        """The idea in words; the picture would tell what is to be predicted."""
        self.heading("idea")
        self.prose(lesson.prose[self.language].idea)

    def question(self, prediction: Prediction, n: int, of: int) -> None:
        """A question in bold, its options with letters."""
        self.heading("predict", say("question_of", self.language, n=n, all=of))
        self.line(prediction.ask.in_(self.language), "bold")
        for letter, option in zip(LETTERS, prediction.options, strict=False):
            self.line(f"{letter}  {option.in_(self.language)}", indent=3)

    def verdict(self, prediction: Prediction, answer: Answer, verdict: Verdict) -> None:
        """What was said beside what the run says."""
        said, truth = (self._value(prediction, v) for v in (answer.value, verdict.truth))
        sentence = say(
            "you_said", self.language, said=said, sure=round(100 * answer.sure), truth=truth
        )
        self.marked(verdict.right, prediction.ask.in_(self.language), MUTE)
        self.line(sentence, "" if verdict.right else "bold", indent=3)

    def sights(self, sights: list[Sight | None], run_name: str) -> None:
        """Guided stops, each with the command that opens it."""
        self.heading("see")
        for sight in sights:
            if sight is None:
                self.say("not_in_run", MUTE)
                continue
            self.line(sight.sentence)
            if sight.step is not None:
                engine = f" --engine {sight.engine}" if sight.engine else ""
                self.line(f"cutaway trace show {run_name} --step {sight.step}{engine}", MUTE, 3)

    def outcomes(self, outcomes: tuple[Outcome, ...]) -> None:
        """Claims and what the run says to them; a failing one with its smallest counter-example."""
        self.heading("check")
        for outcome in outcomes:
            claim = outcome.check.claim.in_(self.language)
            self.marked(outcome.holds, claim, "" if outcome.holds else "bold")
            if not outcome.holds:
                self.line(outcome.but(self.language), indent=3)
        failed = sum(not outcome.holds for outcome in outcomes)
        key = "some_fail" if failed else "all_hold"
        self.say(key, MUTE, failed=failed, n=len(outcomes))

    def printed(self, text: str) -> None:
        """What a kata itself wrote, apart from what is said of it."""
        self.say("kata_printed", MUTE)
        for line in text.splitlines():
            self.line(line, MUTE, indent=3)

    def explained(self, lesson: Lesson) -> None:
        """Why it is so."""
        self.heading("explain")
        self.prose(lesson.prose[self.language].explained)

    def upstream(self, lesson: Lesson) -> None:
        """What vLLM and SGLang do, with version and date."""
        self.heading("upstream")
        for note in lesson.upstream:
            stamp = {"system": note.system, "version": note.version, "date": note.date}
            self.prose(note.text.in_(self.language))
            self.line(say("as_of", self.language, **stamp), MUTE, 3)

    # -- the picture -------------------------------------------------------------------------------

    def picture(self, lesson: Lesson, picture: Picture) -> None:
        """Lanes of glyphs in the requests' hues, and the sentence that says what they show."""
        self.line()
        names = {lane: lane_name(lane, self.language) for lane in picture.lanes}
        left = max(Text(name).cell_len for name in names.values()) + 2
        room = self.console.width - left - 2
        per_unit = min(8, room // picture.end) or room / picture.end
        for lane, name in names.items():
            text = Text(" " * (left - 1 - Text(name).cell_len) + name + " ", style=MUTE)
            marks = [mark for mark in picture.marks if mark.lane == lane]
            self.console.print(text + _lane(marks, per_unit, room))
        used = [kind for kind in GLYPHS if any(mark.kind == kind for mark in picture.marks)]
        legend = "   ".join(f"{GLYPHS[kind]} {say(f'kind_{kind}', self.language)}" for kind in used)
        self.line(legend, MUTE)
        self.line(lesson.picture.caption.in_(self.language), MUTE)

    def _value(self, prediction: Prediction, value: float | str) -> str:
        if isinstance(value, str):
            return f"{value}  {prediction.options[LETTERS.index(value)].in_(self.language)}"
        return f"{plain_number(value)} {prediction.unit.in_(self.language)}".rstrip()


def _lane(marks: list[Mark], per_unit: float, room: int) -> Text:
    """One lane: each mark fills its cells; what comes later covers what was there."""
    hues = palette()["hues"]["dark"]
    alarm = palette()["tui"]["dark"]["alarm"]
    cells: list[tuple[str, str]] = [(" ", "")] * room
    for mark in marks:
        start = min(room - 1, int(mark.start * per_unit))
        end = min(room, max(start + 1, int((mark.start + mark.length) * per_unit)))
        style = MUTE if mark.kind == "waste" else hues[hue_index(mark.request)]
        style = alarm if mark.kind == "preempted" else style
        for i in range(start, end):
            cells[i] = (GLYPHS[mark.kind], style)
        if mark.kind in ("preempted", "token") and end - start > 1:  # a moment, not a stretch
            cells[start + 1 : end] = [(" ", "")] * (end - start - 1)
        if mark.label and end - start > len(mark.label) and mark.kind != "token":
            for i, char in enumerate(mark.label, start + (end - start - len(mark.label)) // 2):
                cells[i] = (char, f"{style} bold")
    text = Text()
    for char, style in cells:
        text.append(char, style=style)
    text.rstrip()
    return text
