"""The drill's own sentences, by key, in the reader's language.

Invariant: every key has both languages; a missing key is our bug.
Source: `phrases.toml`.
"""

import tomllib
from functools import cache
from importlib.resources import files

from interview.text import Language, Text


@cache
def phrases() -> dict[str, Text]:
    """All sentences by key."""
    raw = tomllib.loads((files("interview") / "phrases.toml").read_text(encoding="utf-8"))
    return {key: Text(value["en"], value["zh"]) for key, value in raw.items()}


def say(key: str, language: Language, **values: object) -> str:
    """A sentence with its values filled in."""
    return phrases()[key].in_(language).format(**values)
