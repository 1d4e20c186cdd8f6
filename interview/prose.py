"""An answer as the marker reads it: sentences of clauses, each with its words and whether it says "not".

The idea: a claim is made in a sentence. Terms that stand in a bare list claim nothing, and a term in a clause
that denies it claims the opposite. So the answer is cut into sentences and clauses before any term is
looked for, and sentences that are lists are set aside; of those, a calculation still gives its numbers.

Invariant: deterministic; the same text always gives the same reading, in either language or a mix of both.
Source: own rules. Negation is scoped to a clause, as in NegEx (Chapman et al. 2001), with the
clause in the place of its word window.
"""

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from typing import Literal

from interview.text import half_width

WORD = re.compile(r"[a-z0-9]+(?:[.'’][a-z0-9]+)*(?:\(\))?|[\u4e00-\u9fff]+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[。!?\n]+|(?<=[.!?])(?=[\u4e00-\u9fff])")
BREAK = re.compile(r"[;:]+(?!\d)|\s[-–—]+\s|——")
COMMA = re.compile(r"[,、]+(?!\d)")
ITEM = re.compile(rf"{BREAK.pattern}|{COMMA.pattern}|\b(?:and|or)\b")
PART = re.compile(rf"{ITEM.pattern}|\b(?:so|but|because|while|instead of|rather than)\b")
ABBREVIATIONS = {"i.e.": "that is", "e.g.": "for example", "vs.": "against", "etc.": "and so on"}
OPTION = re.compile(r"--[a-z][\w-]*")
WORDS = tomllib.loads((files("interview") / "words.toml").read_text(encoding="utf-8"))
CONJUNCTION = re.compile(
    rf"\b(?=(?:{'|'.join(WORDS['conjunctions'].split())})\b)|(?={'|'.join(WORDS['conjunctions_zh'])})"
)
"""The place before one: it stays with the half that it begins."""
NEGATORS = frozenset(WORDS["negators"].split())
NEGATION_ZH = re.compile("|".join(WORDS["negators_zh"]))
NOT_NEGATION = re.compile("|".join(WORDS["no_denial"] + WORDS["no_denial_zh"]))
GLUE = frozenset(WORDS["glue"].split())
GLUE_ZH = frozenset(WORDS["glue_zh"])
PREDICATES = frozenset(WORDS["predicates"].split())
PREDICATES_ZH = frozenset(WORDS["predicates_zh"])
ENUMERATES = frozenset(WORDS["enumerates"].split())
ENUMERATES_ZH = tuple(WORDS["enumerates_zh"])
MIN_GLUE, MIN_GLUE_ZH = 0.12, 0.06
"""Share of glue among words, and among pairs of Chinese characters, below which a sentence is a list."""
LIST_GLUE = 0.27
"""The same for a sentence that is cut into pieces by commas."""
MANY_PIECES, SHORT_PIECE, LONG_PIECE = 5, 3, 6
"""So many pieces make a list if most are short, in words; a few more if none is long."""
STATEMENT = 4
"""In a sentence with a predicate, a piece of so many words may say something by a verb we do not know."""
DENSITY = 0.12
"""Numbers per word from which a sentence may be a calculation."""
NUMERAL = re.compile(
    r"\d[\d.,]*|\b(?:one|two|three|four|five|six|eight|nine|ten)\b|[一二两三四五六七八九十]"
)
TERSE_PIECES, TERSE = 2, 12
"""Pieces and words up to which a sentence without glue may be a blunt claim."""
Kind = Literal["prose", "numbers", "terse", "list"]


@dataclass(frozen=True, slots=True)
class Clause:
    """A stretch of text over which a negation reaches."""

    text: str
    """Lower case, for Chinese terms."""
    words: tuple[str, ...]
    """Latin words and numbers, for English terms."""
    negated: bool


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of an answer."""

    text: str
    phrases: tuple[tuple[tuple[Clause, ...], ...], ...]
    """Between semicolons and colons, then between commas, then clauses."""
    kind: Kind
    """Only prose makes points; numbers are looked for in calculations, mistakes in terse claims too."""

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """All of them, in order."""
        return tuple(clause for phrase in self.phrases for piece in phrase for clause in piece)

    @property
    def num_statements(self) -> int:
        """Pieces that say something of something; one at least. It cannot make more points than that."""
        return max(1, sum(map(_states, PART.split(self.text))) + self._num_maybe)

    @property
    def _num_maybe(self) -> int:
        pieces = PART.split(self.text)
        if not any(map(_states, pieces)):
            return 0
        return sum(not _states(piece) and _size(piece) >= STATEMENT for piece in pieces)

    @property
    def is_bare(self) -> bool:
        """Prose at best by its small words: no piece of it says anything of anything."""
        return self.kind == "prose" and not any(map(_states, PART.split(self.text)))

    @property
    def wholes(self) -> list[tuple[Clause, ...]]:
        """What stands between semicolons and colons."""
        return [tuple(clause for piece in phrase for clause in piece) for phrase in self.phrases]

    @property
    def claims(self) -> list[list[tuple[Clause, ...]]]:
        """For each of them its pieces, and neighbouring ones: as far as one short claim reaches."""
        return [[*phrase, *(a + b for a, b in pairwise(phrase))] for phrase in self.phrases]


def read(answer: str) -> tuple[Sentence, ...]:
    """The sentences in order, each with its kind."""
    text = half_width(answer).lower().replace("’", "'").replace("`", "")
    text = text.replace("“", '"').replace("”", '"')
    text = OPTION.sub(" ", text)
    for short, long in ABBREVIATIONS.items():
        text = text.replace(short, long)
    # A dash inside a word joins what people write as two: "block-size", "prefill-first".
    text = re.sub(r"(?<=[a-z0-9])[-‐](?=[a-z])", " ", text)
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
    sentences = [sentence.strip() for sentence in SENTENCE_END.split(text)]
    return tuple(Sentence(s, _phrases(s), _kind(s)) for s in sentences if s)


def _kind(sentence: str) -> Kind:
    if is_prose(sentence):
        return "prose"
    pieces = [piece for piece in ITEM.split(sentence) if piece.strip()]
    with_number = sum(NUMERAL.search(piece) is not None for piece in pieces)
    dense = len(NUMERAL.findall(sentence)) >= DENSITY * _size(sentence)
    if dense and 2 * with_number > len(pieces):
        return "numbers"
    return "terse" if len(pieces) <= TERSE_PIECES and _size(sentence) <= TERSE else "list"


def is_prose(sentence: str) -> bool:
    """False for a list of terms: little glue, mostly very short pieces, or many and no long one."""
    if _has_verb(sentence):
        return True
    glue = sum(word in GLUE or word.endswith("n't") for word in latin(sentence))
    glue += sum(char in GLUE_ZH for char in _han(sentence))
    needed = MIN_GLUE * len(latin(sentence)) + MIN_GLUE_ZH * len(_han(sentence)) / 2
    if glue < needed:
        return False
    phrases = [phrase for phrase in BREAK.split(sentence) if phrase.strip()]
    if all(len(ITEM.split(phrase)) > 1 for phrase in phrases):
        return all(_is_said(phrase, glue * _size(phrase) / _size(sentence)) for phrase in phrases)
    return _is_said(sentence, glue)


def _is_said(phrase: str, glue: float) -> bool:
    """Not too many pieces that are too short, for this much glue."""
    sizes = [_size(piece) for piece in ITEM.split(phrase) if piece.strip()]
    if len(sizes) < MANY_PIECES:
        return True
    if len(sizes) >= MANY_PIECES + 2 and max(sizes) <= LONG_PIECE:
        return False
    short = sum(size <= SHORT_PIECE for size in sizes)
    return glue > LIST_GLUE * sum(sizes) or short < 0.7 * len(sizes)


def _has_verb(sentence: str) -> bool:
    """A verb that takes an enumeration, as "names" does; in Chinese two, each at the head of its piece."""
    if any(word in ENUMERATES for word in latin(sentence)):
        return True
    heads = (piece.strip() for piece in COMMA.split(sentence))
    return len([head for head in heads if head.startswith(ENUMERATES_ZH)]) > 1


def _states(piece: str) -> bool:
    words = latin(piece)
    return any(
        word in PREDICATES or word.endswith("n't") for word in words
    ) or not PREDICATES_ZH.isdisjoint(piece)


def _size(text: str) -> float:
    """Words; two Chinese characters make about one."""
    return len(latin(text)) + len(_han(text)) / 2


def _phrases(sentence: str) -> tuple[tuple[tuple[Clause, ...], ...], ...]:
    return tuple(
        tuple(_clauses(piece) for piece in COMMA.split(phrase)) for phrase in BREAK.split(sentence)
    )


def _clauses(piece: str) -> tuple[Clause, ...]:
    return tuple(clause(part) for part in CONJUNCTION.split(piece) if part.strip())


def clause(text: str) -> Clause:
    """A clause of this text."""
    return Clause(text, tuple(latin(text)), denies(text))


def denies(text: str) -> bool:
    """Whether something is denied in a clause (or a term). "Not wrong" denies nothing."""
    text = NOT_NEGATION.sub(" ", text)
    if any(word in NEGATORS or word.endswith("n't") for word in latin(text)):
        return True
    return NEGATION_ZH.search(text) is not None


def latin(text: str) -> list[str]:
    """Latin words and numbers; "2,992" is two."""
    return [word for word in WORD.findall(text) if word[0] < "\u4e00"]


def _han(text: str) -> str:
    return "".join(char for char in text if "\u4e00" <= char <= "\u9fff")
