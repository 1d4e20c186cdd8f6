"""A text in both languages that Cutaway speaks: never one without the other.

Source: none; the catalogue `tracing/reasons.toml` pairs its sentences in the same way.
"""

from dataclasses import dataclass
from typing import Literal

Language = Literal["en", "zh"]
COLON: dict[Language, str] = {"en": ": ", "zh": "："}
"""Between a heading and what it names."""
FULL_WIDTH = {0xFF01 + i: chr(0x21 + i) for i in range(94)}
FULL_WIDTH |= {ord(sign): f"{chr(ord(sign) - 0xFEE0)} " for sign in "！，：；？"}


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


def half_width(text: str) -> str:
    """Signs, digits and letters that Chinese keyboards write wide, as ASCII; "8，16" stays two numbers."""
    return text.translate(FULL_WIDTH)
