"""Numeric drills over many seeds, recomputed here in another way."""

import re
from fractions import Fraction

import pytest

from interview.drills import Number
from interview.numeric import NUMERIC, make
from interview.quantities import quantities

SEEDS = range(200)
SPECS = {spec.example: spec for spec in NUMERIC}


def drawn(example: str, seed: int) -> tuple[list[Fraction], Number]:
    """Numbers of the question as a reader sees them, in order, and the answer."""
    drill = make(SPECS[example], seed)
    assert isinstance(drill.answer, Number)
    found = re.findall(r"\d+(?:\.\d+)?", drill.question.en)
    assert found == re.findall(r"\d+(?:\.\d+)?", drill.question.zh)
    return [Fraction(number) for number in found], drill.answer


def kv(layers, kv_heads, head_size, value_bytes):
    per_head_and_layer = value_bytes * head_size
    return sum(2 * per_head_and_layer for _ in range(int(layers * kv_heads))) / Fraction(1024)


def layouts(weights, _cards, card, tp):
    return card - weights / tp


def experts(dense, expert, cards, tp):
    return dense / tp + expert / cards


def boundary(hidden, _bf16, sequences, link):
    return sequences * hidden * 2 / (link * 2**30) * 10**6


def rounds(*numbers):
    *outputs, slots = map(int, numbers)
    ends = [0] * slots  # when each slot is free: a list schedule, without simulating rounds
    for output in outputs:
        slot = ends.index(min(ends))
        ends[slot] += output
    return max(ends)


def repeat(block_size, n):
    full = [i for i in range(int(n)) if (i + 1) % block_size == 0]  # last positions of full blocks
    usable = [i for i in full if i < n - 1]  # the last position must be computed
    return n - (usable[-1] + 1 if usable else 0)


def shared_prefix(common, _own, block_size):
    reused = 0
    while reused + block_size <= common:
        reused += block_size
    return reused


def restore(recompute, transfer, load):
    return recompute - transfer - load


def fleet(rate, per_gpu, target, spare):
    gpus = 1
    while gpus * per_gpu * target < rate:
        gpus += 1
    return gpus + spare


CHECKS = {
    "kv": kv,
    "layouts": layouts,
    "experts": experts,
    "boundary": boundary,
    "rounds": rounds,
    "repeat": repeat,
    "shared-prefix": shared_prefix,
    "restore": restore,
    "fleet": fleet,
}


def test_there_are_at_least_eight():
    assert set(CHECKS) == set(SPECS)
    assert len(SPECS) >= 8


@pytest.mark.parametrize("example", CHECKS)
def test_the_answer_follows_from_what_the_question_says(example):
    check = CHECKS[example]
    answers = set()
    for seed in SEEDS:
        numbers, answer = drawn(example, seed)
        if example in ("boundary", "layouts", "experts"):
            numbers = said(example, seed)
        assert answer.value == pytest.approx(float(check(*numbers))), (seed, numbers)
        answers.add(answer.value)
    assert len(answers) >= 8, "fresh parameters should give fresh answers"


def said(example: str, seed: int) -> list[Fraction]:
    """Numbers where the question also holds numbers that are part of names, such as bf16 and TP4."""
    text = make(SPECS[example], seed).question.en
    patterns = {
        "boundary": r"size (\d+) in bf(16), (\d+) sequences.* of (\d+) GiB/s",
        "layouts": r"(\d+) GiB of dense weights on (\d+) cards of (\d+) GiB, TP(\d+)",
        "experts": r": (\d+) GiB outside.*, (\d+) GiB in them. (\d+) cards.* TP(\d+)",
    }
    match = re.search(patterns[example], text)
    assert match, text
    return [Fraction(group) for group in match.groups()]


def test_the_derivation_ends_in_the_answer():
    for spec in NUMERIC:
        answer = make(spec, 5).answer
        assert isinstance(answer, Number)
        values = [line.value / spec.per_unit for line in answer.derivation]
        assert answer.value in values


def test_the_same_seed_is_the_same_drill():
    assert make(NUMERIC[0], 9) == make(NUMERIC[0], 9)
    assert make(NUMERIC[0], 9) != make(NUMERIC[0], 10)


@pytest.mark.parametrize(
    ("value", "unit", "text", "expected"),
    [
        (112, "KiB", "112", True),
        (112, "KiB", "112 KiB", True),
        (112, "KiB", "114688 bytes", True),
        (112, "KiB", "112 MiB", False),
        (112, "KiB", "I think 112", True),
        (112, "KiB", "no idea", None),
        (112, "KiB", "113.1", True),
        (112, "KiB", "115", False),
        (-25, "ms", "-25", True),
        (-25, "ms", "−25 ms", True),
        (-25, "ms", "25", False),
        (25, "ms", "-25", False),
        (25, "ms", "0.025 s", True),
        (0, "ms", "0", True),
        (9, "", "9", True),
        (9, "", "9 GPUs", True),
        (9, "", "10", False),
        (9, "", "9%", None),
        (9, "", "9 ms", None),
        (9, "", "9 GiB", None),
        (112, "KiB", "112 %", None),
        (25, "ms", "25 KiB", None),
    ],
)
def test_what_counts_as_the_number(value, unit, text, expected):
    tolerance = 0.01 if unit else 0
    assert Number(value, unit, tolerance, ()).accepts(text) is expected


def test_every_unit_asked_for_can_be_read():
    for spec in NUMERIC:
        assert quantities(f"3 {spec.unit}")[0].number == 3
