"""The question bank: one TOML file per question, everything in both languages.

The idea: an answer is judged by its key points, and each key point belongs to one of five dimensions, so
that a mark says what is weak and the next question can go there.

    bank/q02.toml       what a person reads: question, three answers, points, mistakes, follow-ups, sources
    patterns/q02.toml   how the marker hears each point and mistake (`interview.marking`)

Invariant: whatever loads is complete: both languages, five follow-ups, a pattern for each point and mistake.
Source: rubric and ladder are our own.
"""

import re
import tomllib
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Literal, get_args

from interview.text import Text

Dimension = Literal["mechanism", "boundary", "number", "trade-off", "version"]
DIMENSIONS: tuple[Dimension, ...] = get_args(Dimension)
Rung = Literal["scope", "mechanism", "number", "limit", "verify"]
RUNGS: tuple[Rung, ...] = get_args(Rung)
Pattern = tuple[tuple[str, ...], ...]
"""Groups that must all be heard; each group is a choice of terms."""

TOPICS = {
    "engines": Text("engines compared", "引擎比较"),
    "memory": Text("KV memory", "KV 内存"),
    "prefix": Text("prefix caching", "前缀缓存"),
    "batching": Text("batching and scheduling", "批处理与调度"),
    "parallelism": Text("several cards", "多卡并行"),
    "programs": Text("programs and agents", "程序与 agent"),
    "speed": Text("speed and precision", "速度与精度"),
    "measuring": Text("measuring", "测量"),
    "capacity": Text("capacity", "容量"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that a good answer gives, and the worked example that it can be recomputed from."""

    value: str
    """As written, with unit: `112 KiB`."""
    example: str | None
    key: str | None
    preset: str | None
    tolerance: float
    near: tuple[str, ...]
    """Terms of which one must stand in the same sentence; empty: the number speaks for itself."""


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that a good answer says."""

    id: str
    dimension: Dimension
    text: Text
    figures: tuple[Figure, ...]
    """Any one of them makes the point, beside its patterns."""
    patterns: tuple[Pattern, ...]
    unless: tuple[Pattern, ...]
    """Heard anywhere in the answer, one of these takes the point away: it says the opposite."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A misconception, and what to reply to it."""

    id: str
    text: Text
    reply: Text
    patterns: tuple[Pattern, ...]
    unless: tuple[Pattern, ...]
    """Heard in the same claim, one of these makes it true."""
    takes: frozenset[str]
    """Points that cannot stand beside it."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question with all that is needed to ask, answer and mark it."""

    id: str
    topic: str
    rung: Rung
    level: int
    title: Text
    question: Text
    short: Text
    """30 seconds."""
    medium: Text
    """3 minutes."""
    deep: Text
    """What to add when asked further."""
    points: tuple[Point, ...]
    mistakes: tuple[Mistake, ...]
    follow_ups: dict[Dimension, Text]
    """What to ask next when that dimension was the weakest."""
    lessons: tuple[int, ...]
    queries: tuple[str, ...]
    """Names of trace queries that show the evidence (`tracing/sql`)."""
    numbers: tuple[str, ...]
    subjects: dict[str, tuple[str, ...]]
    """What an answer is about, by name, with the terms that mean it; `@name` in a pattern."""
    sources: tuple[str, ...]
    vllm: str
    sglang: str
    checked: date


@cache
def load_bank() -> dict[str, Question]:
    """All questions by id, in order."""
    folder = files("interview")
    names = sorted(f.name for f in (folder / "bank").iterdir() if f.name.endswith(".toml"))
    return {
        name.removesuffix(".toml"): _question(
            name.removesuffix(".toml"),
            _toml(folder / "bank" / name),
            _toml(folder / "patterns" / name),
        )
        for name in names
    }


def parse_pattern(line: str) -> Pattern:
    """`block|page & table|map` as groups of terms."""
    return tuple(tuple(term.strip() for term in group.split("|")) for group in line.split("&"))


def _toml(file: Traversable) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _text(value: dict[str, str]) -> Text:
    """Paragraphs stay; a line break inside one is a space, and nothing between Chinese characters."""
    en = re.sub(r"(?<!\n)\n(?!\n)", " ", value["en"].strip())
    zh = re.sub(r"(?<=[a-zA-Z0-9])\n(?=[a-zA-Z0-9])", " ", value["zh"].strip())
    return Text(en, re.sub(r"(?<!\n)\n(?!\n)", "", zh))


def _patterns(lines: list[str]) -> tuple[Pattern, ...]:
    return tuple(parse_pattern(line) for line in lines)


def _question(id_: str, raw: dict[str, Any], heard: dict[str, Any]) -> Question:
    assert raw["topic"] in TOPICS, f"{id_}: unknown topic {raw['topic']}"
    assert raw["rung"] in RUNGS, f"{id_}: unknown rung {raw['rung']}"
    assert set(raw["follow_ups"]) == set(DIMENSIONS), f"{id_}: a follow-up for each dimension"
    points, mistakes = raw["points"], raw["mistakes"]
    assert {p["id"] for p in points} == set(heard["points"]), f"{id_}: patterns of points"
    assert {m["id"] for m in mistakes} == set(heard["mistakes"]), f"{id_}: patterns of mistakes"
    ids = {entry["id"] for entry in points + mistakes}
    assert set(heard.get("unless", {})) <= ids, f"{id_}: unless"
    assert {i for t in heard.get("takes", {}).values() for i in t} <= ids, f"{id_}: takes"
    return Question(
        id=id_,
        topic=raw["topic"],
        rung=raw["rung"],
        level=raw["level"],
        title=_text(raw["title"]),
        question=_text(raw["question"]),
        short=_text(raw["short"]),
        medium=_text(raw["medium"]),
        deep=_text(raw["deep"]),
        points=tuple(_point(p, heard) for p in points),
        mistakes=tuple(
            Mistake(
                id=m["id"],
                text=_text(m),
                reply=_text(m["reply"]),
                patterns=_patterns(heard["mistakes"][m["id"]]),
                unless=_patterns(heard.get("unless", {}).get(m["id"], [])),
                takes=frozenset(heard.get("takes", {}).get(m["id"], [])),
            )
            for m in mistakes
        ),
        follow_ups={d: _text(raw["follow_ups"][d]) for d in DIMENSIONS},
        lessons=tuple(raw["lessons"]),
        queries=tuple(raw["queries"]),
        numbers=tuple(raw["numbers"]),
        subjects={n: tuple(t.split("|")) for n, t in heard.get("subjects", {}).items()},
        sources=tuple(raw["sources"]),
        vllm=raw["vllm"],
        sglang=raw["sglang"],
        checked=raw["checked"],
    )


def _point(raw: dict[str, Any], heard: dict[str, Any]) -> Point:
    assert raw["dimension"] in DIMENSIONS, raw["dimension"]
    near = heard.get("near", {}).get(raw["id"], "")
    figures = tuple(
        Figure(
            value=f["value"],
            example=f.get("example"),
            key=f.get("key"),
            preset=f.get("preset"),
            tolerance=f.get("tolerance", 0.02),
            near=parse_pattern(near)[0] if near else (),
        )
        for f in raw.get("quantities", [])
    )
    patterns = _patterns(heard["points"][raw["id"]])
    unless = _patterns(heard.get("unless", {}).get(raw["id"], []))
    return Point(raw["id"], raw["dimension"], _text(raw), figures, patterns, unless)
