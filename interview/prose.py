"""An answer as the marker reads it: sentences of clauses, each with its words and whether it says "not".

The idea: a claim is made in a sentence. Terms that stand in a bare list claim nothing, and a term in a clause
that denies it claims the opposite. So the answer is cut into sentences and clauses before any term is
looked for, and sentences that are lists are set aside.

Invariant: deterministic; the same text always gives the same reading, in either language or a mix of both.
Source: own rules. Negation is scoped to a clause, as in NegEx (Chapman et al. 2001), with the
clause in the place of its word window.
"""

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise

from interview.text import half_width

WORD = re.compile(r"[a-z0-9]+(?:[.'’][a-z0-9]+)*(?:\(\))?|[\u4e00-\u9fff]+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[。!?\n]+|(?<=[.!?])(?=[\u4e00-\u9fff])")
BREAK = re.compile(r"[;:]+(?!\d)|\s[-–—]+\s|——")
COMMA = re.compile(r"[,、]+(?!\d)")
ITEM = re.compile(rf"{BREAK.pattern}|{COMMA.pattern}|\b(?:and|or)\b")
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
MIN_GLUE, MIN_GLUE_ZH = 0.12, 0.06
"""Share of glue among words, and among pairs of Chinese characters, below which a sentence is a list."""
LIST_GLUE = 0.27
"""The same for a sentence that is cut into pieces by commas."""
MANY_PIECES, SHORT_PIECE, LONG_PIECE = 5, 3, 6
"""So many pieces make a list if most are short, in words; a few more if none is long."""


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

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """All of them, in order."""
        return tuple(clause for phrase in self.phrases for piece in phrase for clause in piece)

    @property
    def num_statements(self) -> int:
        """Pieces that say something of something; one at least. It cannot make more points than that."""
        return max(1, sum(_states(piece) for piece in ITEM.split(self.text)))

    @property
    def claims(self) -> list[tuple[Clause, ...]]:
        """Neighbouring pieces of a phrase: as far as one short claim reaches."""
        pairs = [a + b for phrase in self.phrases for a, b in pairwise(phrase)]
        return [piece for phrase in self.phrases for piece in phrase] + pairs


def read(answer: str) -> tuple[Sentence, ...]:
    """The sentences that claim something, in order; lists of terms are left out."""
    text = half_width(answer).lower().replace("’", "'").replace("`", "")
    text = text.replace("“", '"').replace("”", '"')
    text = OPTION.sub(" ", text)
    # A dash inside a word joins what people write as two: "block-size", "prefill-first".
    text = re.sub(r"(?<=[a-z0-9])[-‐](?=[a-z])", " ", text)
    text = re.sub(r"(?<!\n)\n(?!\n)", " ", text)
    sentences = [sentence.strip() for sentence in SENTENCE_END.split(text)]
    return tuple(Sentence(s, _phrases(s)) for s in sentences if s and is_prose(s))


def is_prose(sentence: str) -> bool:
    """False for a list of terms: little glue, mostly very short pieces, or many and no long one."""
    glue = sum(word in GLUE or word.endswith("n't") for word in _latin(sentence))
    glue += sum(char in GLUE_ZH for char in _han(sentence))
    needed = MIN_GLUE * len(_latin(sentence)) + MIN_GLUE_ZH * len(_han(sentence)) / 2
    if glue < needed and "=" not in sentence:  # a calculation claims something without glue
        return False
    sizes = [_size(piece) for piece in ITEM.split(sentence) if piece.strip()]
    if len(sizes) < MANY_PIECES:
        return True
    if len(sizes) >= MANY_PIECES + 2 and max(sizes) <= LONG_PIECE:
        return False
    short = sum(size <= SHORT_PIECE for size in sizes)
    return glue > LIST_GLUE * sum(sizes) or short < 0.7 * len(sizes)


def _states(piece: str) -> bool:
    words = _latin(piece)
    return any(
        word in PREDICATES or word.endswith("n't") for word in words
    ) or not PREDICATES_ZH.isdisjoint(piece)


def _size(text: str) -> float:
    """Words; two Chinese characters make about one."""
    return len(_latin(text)) + len(_han(text)) / 2


def _phrases(sentence: str) -> tuple[tuple[tuple[Clause, ...], ...], ...]:
    return tuple(
        tuple(_clauses(piece) for piece in COMMA.split(phrase)) for phrase in BREAK.split(sentence)
    )


def _clauses(piece: str) -> tuple[Clause, ...]:
    parts = (part for part in CONJUNCTION.split(piece) if part.strip())
    return tuple(Clause(part, tuple(_latin(part)), denies(part)) for part in parts)


def denies(clause: str) -> bool:
    """Whether something is denied in a clause (or a term)."""
    clause = NOT_NEGATION.sub(" ", clause)
    if any(word in NEGATORS or word.endswith("n't") for word in _latin(clause)):
        return True
    return NEGATION_ZH.search(clause) is not None


def _latin(text: str) -> list[str]:
    return [word for word in WORD.findall(text) if word[0] < "\u4e00"]


def _han(text: str) -> str:
    return "".join(char for char in text if "\u4e00" <= char <= "\u9fff")
