"""Sentences that name requests: catalogue texts whose placeholders stay parts of their own.

    sentence(words, "web.tell.wait.title", who=Who(7))      ->  [{"who": 7}, " waits"]
    reason(words, row)                                      ->  [..., {"code": "preempt_last", "rule": ...}]

The page makes a chip of `who` and a code of `code`; everything else is text there and stays text.

Invariant: what fills a placeholder is a part of its own; no text is ever taken apart after it was filled.
"""

from dataclasses import dataclass
from string import Formatter
from typing import Any

from workbench.look.words import Words

Part = str | dict[str, Any]
_PARSE = Formatter().parse


@dataclass(frozen=True, slots=True)
class Who:
    """A request in a sentence."""

    request: int


def sentence(words: Words, key: str, **values: Any) -> list[Part]:
    """The text of a key with its placeholders filled in; a tuple becomes a list of its items."""
    return fill(words, words(key), values)


def fill(words: Words, text: str, values: dict[str, Any]) -> list[Part]:
    """A text with its placeholders filled in, as parts. A missing value is said to be unknown."""
    parts: list[Part] = []
    for literal, field, _, _ in _PARSE(text):
        if literal:
            parts.append(literal)
        if field is not None:
            parts += _part(words, values.get(field))
    return parts


def reason(words: Words, row: dict[str, Any]) -> list[Part]:
    """The recorded reason of a row of `why_facts`, in the user's language, and its code."""
    values: dict[str, Any] = {name: row[name] for name in ("a0", "a1", "a2", "a3")}
    for name, column in (("req", "request_id"), ("oth", "other_id")):
        values[name] = None if row[column] is None else Who(row[column])
    told = fill(words, row["zh" if words.lang == "zh" else "en"], values)
    return [*told, " ", {"code": row["name"], "rule": row["rule"]}]


def _part(words: Words, value: Any) -> list[Part]:
    match value:
        case None:
            return ["?"]
        case Who(request):
            return [{"who": request}]
        case tuple():
            parts: list[Part] = []
            for i, one in enumerate(value):
                parts += [words("web.list.comma")] if i else []
                parts += _part(words, one)
            return parts
        case int():
            return [f"{value:,}"]
        case _:
            return [str(value)]
