"""A worked number: named inputs, and lines of arithmetic that a reader can follow with a pencil.

The idea: a function computes its lines in order, and each line says what it is, how it comes from the lines
above, and its value with a unit. Result and explanation are the same object, so they cannot disagree.

Invariant: keys of one example's lines are unique; values are unrounded, only `show` rounds.
Source: none.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from interview.text import Language, Text

Number = int | float
Value = Number | tuple[Number, ...]

KIB, MIB, GIB = 2**10, 2**20, 2**30
BINARY_UNITS = (("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
UNITS_ZH = {
    "cards": "张卡",
    "groups": "组",
    "rounds": "轮",
    "blocks": "个 block",
    "GPUs": "张 GPU",
    "tokens": "个 token",
}


@dataclass(frozen=True, slots=True)
class Param:
    """An input that may be changed. Its default's type is its type; a tuple is a list of cases."""

    name: str
    default: Value
    unit: str
    text: Text
    least: Number = 1
    """Below it nothing makes sense."""
    most: Number = math.inf
    """Above it nothing does."""


@dataclass(frozen=True, slots=True)
class Line:
    """One step of a derivation."""

    key: str
    text: Text
    how: str
    """The arithmetic with numbers in place; empty where the text says it all."""
    value: float
    unit: str
    """`B`, `GiB`, `ms`, `%`, `tokens`, ...; empty for a pure ratio."""


Worked = tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Example:
    """One worked number that `cutaway numbers` knows by name."""

    name: str
    title: Text
    moral: Text
    """What to remember of it, one sentence."""
    params: tuple[Param, ...]
    work: Callable[..., Worked]
    headline: str
    """Key of the line that the list shows."""
    presets: Mapping[str, Mapping[str, Value]]
    """Named sets of inputs; what a set leaves out keeps its default."""

    def run(self, **changed: Value) -> Worked:
        """The lines for the defaults with some inputs changed."""
        return self.work(**{p.name: changed.pop(p.name, p.default) for p in self.params}, **changed)


class Derivation:
    """Collects the lines while a function computes."""

    def __init__(self) -> None:
        self._lines: list[Line] = []

    def add(self, key: str, text: Text, how: str, value: float, unit: str) -> float:
        """Note a line; returns its value, to go on with."""
        assert all(line.key != key for line in self._lines), f"two lines are called {key}"
        self._lines.append(Line(key, text, how, value, unit))
        return value

    def done(self) -> Worked:
        """All lines, in order."""
        return tuple(self._lines)


def results(worked: Worked) -> dict[str, float]:
    """Values by key."""
    return {line.key: line.value for line in worked}


def plain(value: float) -> str:
    """A number for people: thousands separated, four digits where it is no integer."""
    if float(value).is_integer():
        return f"{int(value):,}"
    digits = 3 if abs(value) < 1000 else 1
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".")


def show(value: float, unit: str, language: Language = "en") -> str:
    """Number and unit; bytes also in the largest binary unit that fits."""
    one = unit.removesuffix("s") if value == 1 and unit in UNITS_ZH else unit
    word = UNITS_ZH.get(unit, unit) if language == "zh" else one
    text = f"{plain(value)} {word}".rstrip()
    if unit == "B":
        for name, size in BINARY_UNITS:
            if value >= size:
                return f"{text} = {plain(value / size)} {name}"
    return text
