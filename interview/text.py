"""A text in both languages that Cutaway speaks: never one without the other.

Source: none; the catalogue `tracing/reasons.toml` pairs its sentences in the same way.
"""

from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "zh"]


@dataclass(frozen=True, slots=True)
class Text:
    """English and Simplified Chinese of the same thing."""

    en: str
    zh: str

    def __post_init__(self) -> None:
        """An empty half is our bug: it would reach the screen as a hole."""
        assert self.en.strip(), f"no English beside {self.zh!r}"
        assert self.zh.strip(), f"no Chinese beside {self.en!r}"

    def in_(self, language: Language) -> str:
        """The half in this language."""
        return self.en if language == "en" else self.zh
