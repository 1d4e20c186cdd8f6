"""One sentence in both languages, and the words that lessons use for themselves.

Invariant: nothing is half translated: a `Text` has both, and `words.toml` has both for each key.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


@dataclass(frozen=True, slots=True)
class Text:
    """The same in English and Simplified Chinese."""

    en: str
    zh: str

    def in_(self, language: Language) -> str:
        """The text in that language."""
        return self.en if language == "en" else self.zh


@cache
def _words() -> dict[str, dict[str, str]]:
    return tomllib.loads((files("lessons") / "words.toml").read_text(encoding="utf-8"))


def say(key: str, language: Language, **values: object) -> str:
    """A text of `words.toml` with its placeholders filled; an unknown key is our bug (KeyError)."""
    return _words()[key][language].format(**values)


def both(key: str, **values: object) -> Text:
    """A text of `words.toml` in both languages, for who does not know yet who will read it."""
    return Text(say(key, "en", **values), say(key, "zh", **values))
