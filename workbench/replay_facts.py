"""What happened in a step, as those who draw histories read it.

Invariant: made by `State.apply` alone, and not changed once the step is closed.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tracing.codes import Code
from workbench.replay_pool import Eviction

Facts = dict[str, Any]
"""A row by column. Of a request: columns of `requests_at.sql`."""
ADMITTED = frozenset(
    int(code)
    for code in (
        *(Code.ADMIT_NEW, Code.ADMIT_RESUMED, Code.ADMIT_CUT, Code.ADMIT_STATIC),
        Code.SPEC_PAD,
    )
)


class Part(NamedTuple):
    """What one sequence had in a step: columns of table step_request. Many are kept, so it is a tuple."""

    step: int
    row: int
    """Schedule order."""
    request_id: int
    code: int
    num_scheduled_tokens: int
    num_computed_tokens: int
    num_tokens: int
    is_prefill: bool
    num_cached_tokens: int
    num_draft_tokens: int = 0
    num_accepted_tokens: int | None = None


@dataclass(slots=True)
class StepFacts:
    """What happened in one step, or (row None) after the last one. Rows are dicts by column."""

    step: int
    row: Facts | None = None
    """Table step."""
    parts: list[Part] = field(default_factory=list)
    """In schedule order."""
    admitted: list[Part] = field(default_factory=list)
    """Those that came in with this step."""
    decisions: list[Facts] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    given: dict[int, int] = field(default_factory=dict)
    """Block given out or shared -> request that holds it now."""
    first_tokens: list[tuple[int, int]] = field(default_factory=list)
    """(request, epoch ns) of tokens with k = 0."""
    arrivals: list[int] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    """Requests that the core was done with."""
    ends: list[Facts] = field(default_factory=list)
    """Table request_end: told by front ends, after `left`."""
    events: list[Facts] = field(default_factory=list)
    max_gap_ns: int | None = None
    """The longest wait for a token that came in this step; None: none came, or only first ones."""
    queue_ns: list[int] = field(default_factory=list)
    """How long requests whose end was told had waited."""

    @property
    def is_empty(self) -> bool:
        """Nothing happened."""
        lists = (self.parts, self.decisions, self.evictions, self.arrivals, self.ends, self.events)
        return self.row is None and not any(lists) and not self.left
