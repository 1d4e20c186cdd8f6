"""What screens say, by key, in English or Simplified Chinese.

A key is area, place and thing (`tui.overview.waiting`); its text is a whole label or sentence with named
placeholders, never a piece to be glued: languages differ in order.

Invariant: both languages have the same keys with the same placeholders (tested), so no screen can be half
translated.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

LANGUAGES = ("en", "zh")


@cache
def catalogue(lang: str) -> dict[str, str]:
    """All texts of a language by key. Raises FileNotFoundError if there is no such language."""
    tables = tomllib.loads((Path(__file__).parent / f"{lang}.toml").read_text(encoding="utf-8"))
    return dict(_flatten(tables, ""))


class Words:
    """One language's texts."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self._texts = catalogue(lang)

    def __call__(self, key: str, **values: Any) -> str:
        """The text of a key with its placeholders filled in; an unknown key is our bug (KeyError)."""
        text = self._texts[key]
        return text.format(**values) if values else text


def _flatten(table: dict[str, Any], prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            found += _flatten(value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found
