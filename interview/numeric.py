"""Numeric drills: a worked number with fresh parameters, asked before its derivation is shown.

The idea: each drill draws parameters from a range in which the answer stays round enough for paper, runs the
same example that `cutaway numbers` prints, and asks for one of its lines. So question, answer and derivation
agree by construction.

Invariant: the seed alone decides the parameters.
Source: the examples in `interview.numbers`; the questions are in `phrases.toml`.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from interview.drills import Drill, Number
from interview.numbers import EXAMPLES
from interview.numbers.worked import KIB, Value, results
from interview.phrases import phrases
from interview.text import Text

Drawn = dict[str, Value]


@dataclass(frozen=True, slots=True)
class NumericDrill:
    """How one worked number is asked."""

    example: str
    topic: str
    level: int
    draw: Callable[[random.Random], Drawn]
    key: str
    """The line asked for; may hold `{name}` too."""
    unit: str
    per_unit: float = 1.0
    """Values of the line are divided by this: bytes asked for in KiB."""
    tolerance: float = 0.01


def _kv(rng: random.Random) -> Drawn:
    layers = rng.choice([16, 24, 28, 30, 32, 36, 40, 48, 64, 80])
    kv_heads = rng.choice([2, 3, 4, 5, 8, 16, 32])
    return {
        "layers": layers,
        "kv_heads": kv_heads,
        "head_size": rng.choice([64, 128]),
        "value_bytes": rng.choice([1, 2]),
    }


def _layouts(rng: random.Random) -> Drawn:
    cards = rng.choice([2, 4, 8])
    tp = rng.choice([n for n in (1, 2, 4, 8) if n <= cards])
    card_gib = rng.choice([16.0, 24.0, 40.0, 48.0, 80.0])
    weights = float(rng.choice([4, 8, 12, 16]))
    return {"weights_gib": weights, "card_gib": card_gib, "cards": cards, "tp": tp}


def _experts(rng: random.Random) -> Drawn:
    cards = rng.choice([4, 8])
    tp = rng.choice([n for n in (1, 2, 4, 8) if n <= cards])
    dense, expert = float(rng.choice([4, 6, 8, 12])), float(cards * rng.choice([4, 6, 9, 10]))
    return {"dense_gib": dense, "expert_gib": expert, "cards": cards, "tp": tp}


def _boundary(rng: random.Random) -> Drawn:
    return {
        "hidden": rng.choice([1024, 2048, 3072, 4096, 5120, 8192]),
        "sequences": rng.choice([4, 8, 16, 32, 64]),
        "link_gib_s": float(rng.choice([6, 12, 24, 48])),
    }


def _rounds(rng: random.Random) -> Drawn:
    outputs = tuple(rng.randint(1, 8) for _ in range(rng.randint(3, 6)))
    return {"outputs": outputs, "slots": rng.choice([2, 3])}


def _repeat(rng: random.Random) -> Drawn:
    block_size = rng.choice([16, 32])
    # Multiples of the block are the surprising case: ask for them every other time.
    length = rng.randint(1, 8) * block_size + rng.choice([0, 0, 1, rng.randint(2, block_size - 1)])
    return {"lengths": (length,), "block_size": block_size, "n": length}


def _shared(rng: random.Random) -> Drawn:
    return {
        "common": rng.randint(200, 4000),
        "own": rng.randint(20, 300),
        "block_size": rng.choice([16, 32]),
    }


def _restore(rng: random.Random) -> Drawn:
    return {
        "recompute_ms": float(rng.randint(40, 200)),
        "transfer_ms": float(rng.randint(10, 180)),
        "load_ms": float(rng.randint(2, 20)),
    }


def _fleet(rng: random.Random) -> Drawn:
    return {
        "rate": float(rng.randint(10, 120)),
        "per_gpu": float(rng.choice([2, 3, 4, 5, 6, 8])),
        "target": rng.choice([0.6, 0.7, 0.75, 0.8]),
        "spare": rng.choice([1, 2]),
    }


NUMERIC = (
    NumericDrill(
        "kv",
        "memory",
        1,
        _kv,
        "token",
        "KiB",
        KIB,
    ),
    NumericDrill(
        "layouts",
        "parallelism",
        1,
        _layouts,
        "left_tp{tp}",
        "GiB",
    ),
    NumericDrill(
        "experts",
        "parallelism",
        2,
        _experts,
        "card_tp{tp}",
        "GiB",
    ),
    NumericDrill(
        "boundary",
        "parallelism",
        2,
        _boundary,
        "decode_time",
        "µs",
        tolerance=0.03,
    ),
    NumericDrill(
        "rounds",
        "batching",
        1,
        _rounds,
        "continuous",
        "",
        tolerance=0,
    ),
    NumericDrill(
        "repeat",
        "prefix",
        2,
        _repeat,
        "computed_{n}",
        "",
        tolerance=0,
    ),
    NumericDrill(
        "shared-prefix",
        "prefix",
        1,
        _shared,
        "reused",
        "",
        tolerance=0,
    ),
    NumericDrill(
        "restore",
        "prefix",
        2,
        _restore,
        "saved",
        "ms",
    ),
    NumericDrill(
        "fleet",
        "capacity",
        1,
        _fleet,
        "fleet",
        "",
        tolerance=0,
    ),
)


def make(spec: NumericDrill, seed: int) -> Drill:
    """The drill that this seed gives."""
    drawn = spec.draw(random.Random(seed))
    example = EXAMPLES[spec.example]
    names = {param.name for param in example.params}
    worked = example.run(**{name: value for name, value in drawn.items() if name in names})
    value = results(worked)[spec.key.format(**drawn)] / spec.per_unit
    words = {
        name: ", ".join(f"{v:g}" for v in value) if isinstance(value, tuple) else value
        for name, value in drawn.items()
    }
    ask = phrases()[f"ask_{spec.example}"]
    return Drill(
        card=f"numeric/{spec.example}",
        kind="numeric",
        topic=spec.topic,
        rung="number",
        level=spec.level,
        title=example.title,
        question=Text(ask.en.format(**words), ask.zh.format(**words)),
        answer=Number(value, spec.unit, spec.tolerance, worked),
        evidence=(f"cutaway numbers {spec.example}",),
    )
