"""Sentences that name requests: catalogue texts whose placeholders become chips, numbers and terms.

    sentence(words, "web.tell.wait.title", who=Who(7))   ->  [chip of r7, " waits"]

Invariant: what fills a placeholder is a child of its own; no text is ever taken apart after it was filled.
"""

from dataclasses import dataclass
from string import Formatter
from typing import Any

from dash import html

from workbench.look.words import Words
from workbench.web.parts import chip

_PARSE = Formatter().parse


@dataclass(frozen=True, slots=True)
class Who:
    """A request in a sentence."""

    request: int


def sentence(words: Words, key: str, **values: Any) -> list[Any]:
    """The text of a key with its placeholders filled in; a `Who` becomes a chip, a tuple of them a list."""
    return fill(words, words(key), values)


def fill(words: Words, text: str, values: dict[str, Any]) -> list[Any]:
    """A text with its placeholders filled in, as children. A missing value is said to be unknown."""
    parts: list[Any] = []
    for literal, field, _, _ in _PARSE(text):
        if literal:
            parts.append(literal)
        if field is not None:
            parts += _child(words, values.get(field))
    return parts


def reason(words: Words, row: dict[str, Any]) -> list[Any]:
    """The recorded reason of a row of `why_facts`, in the user's language."""
    values: dict[str, Any] = {name: row[name] for name in ("a0", "a1", "a2", "a3")}
    for name, column in (("req", "request_id"), ("oth", "other_id")):
        values[name] = None if row[column] is None else Who(row[column])
    told = fill(words, row["zh" if words.lang == "zh" else "en"], values)
    return [*told, " ", html.Code(row["name"], title=row["rule"])]


def _child(words: Words, value: Any) -> list[Any]:
    match value:
        case None:
            return ["?"]
        case Who(request):
            return [chip(request)]
        case tuple():
            parts: list[Any] = []
            for i, one in enumerate(value):
                parts += [words("web.list.comma")] if i else []
                parts += _child(words, one)
            return parts
        case bool() | str():
            return [str(value)]
        case int():
            return [f"{value:,}"]
        case _:
            return [value]
