"""What a replay says: how many steps were compared, and where it first went another way."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where we decided otherwise."""

    step: int
    field: str
    theirs: Any
    ours: Any
    rule: str
    """Where upstream decides this, and how."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One golden file replayed."""

    name: str
    mechanism: str
    num_steps: int
    num_equal_steps: int
    """Steps before the first difference; all of them if there is none."""
    difference: Difference | None = None
