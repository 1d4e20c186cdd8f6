"""Who a clause speaks of: "vLLM keeps a hash chain, SGLang a tree" says nothing false about either.

The idea: a sentence about two things is cut into runs, each about one of them, so that right words beside the
wrong name can be told from right words beside the right one. A clause with one name is about it; what follows
a name that leads its clause is about it too, until another comes. "The former" and "the latter" are names.

Invariant: in doubt a clause is about nobody; a run is never about two.
Source: own rules, as little as two engines and two loops need.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from interview.prose import Clause, Sentence, clause

ORDINALS = ("the former|前者", "the latter|后者")
JOINTS = re.compile(
    r"\b(?:and|or|against|versus|vs|than|with|in contrast to)\b|和|与|跟|对|比|、|则|而"
)
"""Where a clause with two names may part."""
ASIDE = re.compile(r"\b(?:unlike|than|versus|vs|compared|against|like|not)\b|不像|相比|比起|不同于")
"""A name after one of these does not lead."""
CARRIES = re.compile(r"(?:it|its|there|它|这边|这里|那边)(?![a-z])")
"""A sentence without names that begins so goes on about the last one."""
LEAD = 12
"""A name that begins within so many characters leads its clause."""


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring clauses about one subject."""

    subject: str
    clauses: tuple[Clause, ...]
    text: str
    """The sentence that they are from."""


def runs(sentences: Iterable[Sentence], subjects: Mapping[str, tuple[str, ...]]) -> list[Run]:
    """The runs of an answer, in order. subjects: name -> terms that mean it."""
    found: list[Run] = []
    order: list[str] = []
    last: str | None = None
    for sentence in sentences:
        about = last if CARRIES.match(sentence.text) else None
        held: list[Clause] = []
        for part in sentence.clauses:
            for piece in _pieces(part, subjects, order):
                named = _named(piece.text, subjects, order)
                order += [name for name in named if name not in order]
                subject = named[0] if len(set(named)) == 1 else (None if named else about)
                if subject != about and about is not None and held:
                    found.append(Run(about, tuple(held), sentence.text))
                if subject != about:
                    held = []
                about = subject
                if subject is not None:
                    held.append(piece)
                if named and not _leads(piece.text, subjects, order):
                    if held and about is not None:
                        found.append(Run(about, tuple(held), sentence.text))
                    about, held = None, []
        if about is not None and held:
            found.append(Run(about, tuple(held), sentence.text))
        last = about
    return found


def _pieces(
    whole: Clause, subjects: Mapping[str, tuple[str, ...]], order: list[str]
) -> list[Clause]:
    """The clause, or its parts with one name each."""
    if len(set(_named(whole.text, subjects, order))) < 2:
        return [whole]
    parts = [part for part in JOINTS.split(whole.text) if part.strip()]
    joined: list[str] = []
    for part in parts:
        if joined and not (_named(part, subjects, order) and _named(joined[-1], subjects, order)):
            joined[-1] += f" {part}"
        else:
            joined.append(part)
    return [clause(part) for part in joined]


def _named(text: str, subjects: Mapping[str, tuple[str, ...]], order: list[str]) -> list[str]:
    """Names in the order of their mentions."""
    places: list[tuple[int, str]] = []
    for name, terms in _all(subjects, order):
        places += [(match.start(), name) for match in _finder(terms).finditer(text)]
    return [name for _, name in sorted(places)]


def _leads(text: str, subjects: Mapping[str, tuple[str, ...]], order: list[str]) -> bool:
    """Whether what follows is about the name: it comes early, and something is said of it."""
    finders = [_finder(terms) for _, terms in _all(subjects, order)]
    places = [match.span() for finder in finders for match in finder.finditer(text)]
    first, end = min(places)
    return first <= LEAD and ASIDE.search(text[:first]) is None and bool(text[end:].strip(" .,"))


def _all(
    subjects: Mapping[str, tuple[str, ...]], order: list[str]
) -> list[tuple[str, tuple[str, ...]]]:
    """Names with their terms; the first two that came up are the former and the latter."""
    ordinals = [
        (name, tuple(terms.split("|"))) for name, terms in zip(order, ORDINALS, strict=False)
    ]
    return [*subjects.items(), *(ordinals if len(order) == len(ORDINALS) else ())]


@cache
def _finder(terms: tuple[str, ...]) -> re.Pattern[str]:
    """Latin terms as words, Chinese ones anywhere."""
    each = [
        rf"(?<![a-z0-9.,]){re.escape(term)}(?![a-z0-9]|[.,]\d)"
        if term.isascii()
        else re.escape(term)
        for term in terms
    ]
    return re.compile("|".join(each))
