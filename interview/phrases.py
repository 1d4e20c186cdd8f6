"""The drill's own sentences, by key, in the reader's language.

Invariant: every key has both languages; a missing key is our bug.
Source: `phrases.toml`, and `trace_phrases.toml` for what is asked of recorded runs.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import get_args

from interview.text import Language, Text


@cache
def phrases() -> dict[str, Text]:
    """All sentences by key."""
    found: dict[str, Text] = {}
    for name in ("phrases.toml", "trace_phrases.toml"):
        raw = tomllib.loads((files("interview") / name).read_text(encoding="utf-8"))
        assert not raw.keys() & found.keys(), f"a key of {name} is taken"
        found |= {key: Text(value["en"], value["zh"]) for key, value in raw.items()}
    return found


def fill(key: str, **values: object) -> Text:
    """A sentence in both languages with its values filled in; a Text among them in its own half."""
    halves = {}
    for language in get_args(Language):
        own = {k: v.in_(language) if isinstance(v, Text) else v for k, v in values.items()}
        halves[language] = phrases()[key].in_(language).format(**own)
    return Text(**halves)


def say(key: str, language: Language, **values: object) -> str:
    """A sentence with its values filled in."""
    return phrases()[key].in_(language).format(**values)
