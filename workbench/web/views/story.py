"""What a why card says, part by part, and what all stories have in common.

Sentences are lists of parts (`sentences`); the SQL is the one that shows the same facts.

Invariant: a story without a recorded reason says that none was recorded.
"""

from dataclasses import dataclass, field

from tracing.reader import Run
from workbench.look.words import Words
from workbench.web.parts import duration
from workbench.web.views.sentences import Part, Who, reason, sentence
from workbench.web.views.why_facts import Mark, Row

MAX_REASONS = 4


@dataclass(slots=True)
class Story:
    """What the card says; plain values, because it travels as JSON."""

    title: list[Part]
    place: str
    sql: str
    num_rows: int = 0
    """Of the answer to `sql`."""
    what: list[list[Part]] = field(default_factory=list)
    why: list[list[Part]] = field(default_factory=list)
    who: list[list[Part]] = field(default_factory=list)
    bill: list[list[Part]] = field(default_factory=list)
    costs: tuple[int, int] | None = None
    """The bill as a bar: tokens that were kept, tokens that had to be computed again."""
    is_alarm: bool = False
    place_of: tuple[int, int] | None = None
    """Its place among all of its kind, and how many there are."""


def where(run: Run, words: Words, mark: Mark, step: Row | None, *more: str) -> str:
    """Step, time since the first one, and what else places the mark."""
    said = [words("web.tell.step", n=f"{mark.step:,}")]
    if step is not None:
        ((start,),) = run.sql("SELECT min(start_ns) FROM step").rows
        said.append(duration(words, step["start_ns"] - start))
    return words("web.list.dot").join([*said, *more])


def unrecorded(words: Words, step: Row | None) -> list[list[Part]]:
    """That nothing is known, and at which level."""
    level = "?" if step is None or step["level"] is None else step["level"]
    return [sentence(words, "web.tell.unrecorded", n=level)]


def named_reason(words: Words, row: Row) -> list[Part]:
    """A reason with its request in front, where it has one."""
    told = reason(words, row)
    if row["request_id"] is None:
        return told
    return [*sentence(words, "web.tell.about", who=Who(row["request_id"])), *told]


def row_sql(mark: Mark) -> str:
    """The request's row in the step."""
    return (
        "select row, code, num_scheduled_tokens, num_computed_tokens,\n"
        "       num_cached_tokens, num_recomputed_tokens\nfrom step_request\n"
        f"where engine_id = {mark.engine} and step = {mark.step} and request_id = {mark.request}"
    )


def decision_sql(mark: Mark, kinds: str) -> str:
    """Decisions of the step, of some kinds."""
    return (
        "select step, code, request_id, other_id, a0, a1, a2, a3\nfrom decision\n"
        f"where engine_id = {mark.engine} and step = {mark.step} and {kinds}"
    )
