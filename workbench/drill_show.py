"""How a drill looks in a terminal: grey around, the question bold, a verdict by sign and weight, not by hue.

Right is a bold tick, wrong a bold cross; points that were not made are grey. Every mark comes with the
sentence that earned it, so that nobody has to believe the marker.
"""

import shutil
from datetime import date

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from interview.deck import make
from interview.drills import LETTERS, Choice, Drill, Number, Open
from interview.marking import Marking, mistake_rows, point_rows, shorten
from interview.numbers.worked import show
from interview.phrases import say
from interview.questions import TOPICS, Question
from interview.text import COLON, Language

MUTE = "bright_black"


class Page:
    """A console and a language."""

    def __init__(self, language: Language, *, stderr: bool = False) -> None:
        self.language = language
        width = min(shutil.get_terminal_size((100, 24)).columns, 100)
        self.console = Console(width=width, highlight=False, stderr=stderr)

    def line(self, text: str = "", style: str = "", indent: int = 1) -> None:
        """One paragraph; anybody's text is printed as text."""
        self.console.print(Padding(Text(text, style=style), (0, 0, 0, indent), expand=False))

    def say(self, key: str, style: str = "", **values: object) -> None:
        """One of the drill's own sentences."""
        self.line(say(key, self.language, **values), style)

    def heading(self, text: str, note: str = "") -> None:
        """A title in the rule, a note at its right."""
        title = Text(f" {text} ", style="bold")
        rest = max(1, self.console.width - title.cell_len - Text(note).cell_len - 3)
        self.console.print(title + Text(f"{'─' * rest} {note}", style=MUTE))

    def question(self, drill: Drill, note: str) -> None:
        """What is asked: where it belongs, the picture, the options."""
        lang = self.language
        kind = say(f"kind_{drill.kind}", lang)
        level = say("level", lang, level=drill.level)
        chip = Text(" drill ", style="reverse")
        where = Text(f"  {kind} · {TOPICS[drill.topic].in_(lang)} · {level}", style=MUTE)
        gap = max(1, self.console.width - chip.cell_len - where.cell_len - Text(note).cell_len - 1)
        self.console.print()
        self.console.print(chip + where + Text(" " * gap + note, style=MUTE))
        self.line()
        if not isinstance(drill.answer, Open):
            self.line(drill.title.in_(lang), "bold")
        self.line(drill.question.in_(lang), "bold" if isinstance(drill.answer, Open) else "")
        self.line()
        self.fixed(drill.picture)
        if drill.picture:
            self.line()
        if isinstance(drill.answer, Choice):
            table = Table.grid(padding=(0, 1, 0, 0))
            for letter, option in zip(LETTERS, drill.answer.options, strict=False):
                table.add_row(Text(f" {letter} ", style="bold"), Text(option.in_(lang)))
            self.console.print(table)
            self.line()

    def fixed(self, lines: tuple[str, ...]) -> None:
        """Lines of fixed width; what does not fit is cut."""
        for row in lines:
            self.console.print(Text(f" {row}"), no_wrap=True, overflow="crop")

    def verdict(self, *, right: bool, answer: str) -> None:
        """One line: the sign, and what is right."""
        if right:
            self.line(f"✓ {say('right', self.language)}{COLON[self.language]}{answer}", "bold")
        else:
            self.line(f"✕ {say('wrong', self.language, answer=answer)}", "bold")

    def derivation(self, number: Number) -> None:
        """The worked lines of a number."""
        self.line()
        self.heading(say("derivation", self.language))
        table = Table.grid(padding=(0, 3, 0, 1))
        for line in number.derivation:
            value = Text(show(line.value, line.unit, self.language), style="bold")
            table.add_row(Text(line.text.in_(self.language)), Text(line.how, style=MUTE), value)
        self.console.print(table)

    def replies(self, choice: Choice, chosen: int) -> None:
        """Why the chosen one is wrong, and what holds instead."""
        if chosen != choice.right:
            self.line(choice.replies[chosen].in_(self.language))
        self.line()
        self.line(choice.replies[choice.right].in_(self.language), MUTE)

    def proof(self, drill: Drill) -> None:
        """What the recorded run says, if the drill was made from one."""
        if drill.proof:
            self.line()
            self.heading(say("proof", self.language))
            self.fixed(drill.proof)

    def marking(self, question: Question, marking: Marking) -> None:
        """Numbered points with what earned them, lettered misconceptions with their reply, and the scores."""
        lang = self.language
        self.line()
        self.heading(say("key_points", lang))
        table = Table.grid(padding=(0, 1, 0, 0))
        for number, (id_, text, dimension) in enumerate(point_rows(question, lang), start=1):
            heard = id_ in marking.heard
            body = Text(text, style="" if heard else MUTE)
            if heard and marking.heard[id_]:
                body.append(f"\n“{shorten(marking.heard[id_])}”", style=MUTE)
            sign = Text("✓", style="bold") if heard else Text("·", style=MUTE)
            table.add_row(
                Text(f" {number:>2}", style=MUTE), sign, body, Text(dimension, style=MUTE)
            )
        self.console.print(table)
        if marking.mistakes:
            self.line()
            self.heading(say("misconceptions", lang))
        for letter, mistake in zip(LETTERS, mistake_rows(question, marking), strict=False):
            self.line(f"{letter} ✕ {mistake.text.in_(lang)}", "bold")
            self.line(f"“{shorten(marking.mistakes[mistake.id])}”", MUTE, indent=5)
            self.line(mistake.reply.in_(lang), indent=5)
        self.scores(marking)

    def scores(self, marking: Marking) -> None:
        """The five dimensions on one line."""
        parts = [f"{self.dimension(d)} {score}" for d, score in marking.scores.items()]
        self.line()
        self.line(f"{say('scores', self.language)}{COLON[self.language]}{' · '.join(parts)}")

    def dimension(self, dimension: str) -> str:
        """The name of a dimension."""
        return say(f"dimension_{dimension}", self.language)

    def evidence(self, drill: Drill) -> None:
        """Commands that show the matter."""
        if drill.evidence:
            self.line(
                f"{say('evidence', self.language)}{COLON[self.language]}{' · '.join(drill.evidence)}",
                MUTE,
            )

    def sheet(self, question: Question) -> None:
        """Everything about one question."""
        lang = self.language
        self.heading(question.title.in_(lang), question.id)
        self.line(question.question.in_(lang), "bold")
        for answer in (question.short, question.medium, question.deep):
            self.line()
            self.line(answer.in_(lang))
        self.line()
        self.heading(say("key_points", lang))
        for _, text, dimension in point_rows(question, lang):
            self.line(f"· {text} ({dimension})")
        self.line()
        self.heading(say("common_mistakes", lang))
        for mistake in question.mistakes:
            self.line(f"✕ {mistake.text.in_(lang)}")
            self.line(mistake.reply.in_(lang), MUTE, indent=3)
        self.line()
        for dimension, follow_up in question.follow_ups.items():
            title = say("follow_up", lang, dimension=self.dimension(dimension))
            self.line(f"{title}{COLON[self.language]}{follow_up.in_(lang)}")
        self.line()
        self.stamp(question)
        for source in question.sources:
            self.line(source.replace("golden:", "tests/golden/"), MUTE, indent=3)
        self.say("trace_queries", MUTE, names=", ".join(question.queries))
        self.evidence(make(f"concept/{question.id}", 0))

    def stamp(self, question: Question) -> None:
        """Which versions the answer describes."""
        checked: date = question.checked
        self.say("sources", MUTE, date=checked, vllm=question.vllm, sglang=question.sglang)
