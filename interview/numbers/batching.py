"""Rounds of static and continuous batching, drawn round by round.

A round is one decode step over the slots. Static batching keeps a slot until the longest answer of its batch
has ended; continuous batching gives it away at once.
Source: Yu et al. 2022 (Orca), section 3; the engine's own `static` and `vllm` schedulers agree (`--measure`).
"""

from collections import deque

from interview.numbers.worked import Derivation, Example, Param, Worked
from interview.text import Text

Rounds = list[list[int]]
"""Per round the requests that computed something."""


def static_rounds(outputs: tuple[int, ...], slots: int) -> Rounds:
    """One closed batch after another."""
    rounds: Rounds = []
    for first in range(0, len(outputs), slots):
        batch = range(first, min(first + slots, len(outputs)))
        for done in range(max(outputs[i] for i in batch)):
            rounds.append([i for i in batch if outputs[i] > done])
    return rounds


def continuous_rounds(outputs: tuple[int, ...], slots: int) -> Rounds:
    """A slot that becomes free is filled in the next round."""
    left, waiting = list(outputs), deque(range(len(outputs)))
    running: list[int] = []
    rounds: Rounds = []
    while waiting or running:
        while waiting and len(running) < slots:
            running.append(waiting.popleft())
        rounds.append(list(running))
        for i in running:
            left[i] -= 1
        running = [i for i in running if left[i] > 0]
    return rounds


def draw(rounds: Rounds, slots: int) -> str:
    """Rounds as `AB AB B·`: a letter for each slot that computes, a dot for an idle one."""
    names = ["".join(chr(ord("A") + i % 26) for i in sorted(members)) for members in rounds]
    return " ".join(name.ljust(slots, "·") for name in names)


def rounds(*, outputs: tuple[int, ...], slots: int) -> Worked:
    """How many rounds both need for the same answers, and how full their slots are."""
    d = Derivation()
    total = sum(outputs)
    cases = (
        ("static", Text("static", "静态批"), static_rounds(outputs, slots)),
        ("continuous", Text("continuous", "连续批"), continuous_rounds(outputs, slots)),
    )
    for key, text, plan in cases:
        number = d.add(key, text, draw(plan, slots), len(plan), "rounds")
        d.add(
            f"{key}_used",
            Text("  slots used", "  槽位利用"),
            f"{total} / ({number:g} × {slots})",
            100 * total / (len(plan) * slots),
            "%",
        )
        last = len(outputs) - 1
        waited = next(i for i, members in enumerate(plan) if last in members)
        d.add(
            f"{key}_wait",
            Text("  the last request waits", "  最后一个请求等待"),
            "",
            waited,
            "rounds",
        )
    return d.done()


EXAMPLES = (
    Example(
        "rounds",
        Text("Static and continuous batching", "静态批与连续批"),
        Text(
            "The gain is the idle part of slots whose neighbours run longer; equal lengths gain nothing.",
            "收益来自等待更长邻居的空槽；长度都一样就没有收益。",
        ),
        (
            Param(
                "outputs",
                (2, 5, 3),
                "tokens",
                Text("output length of each request", "各请求输出长度"),
            ),
            Param("slots", 2, "", Text("slots", "槽位")),
        ),
        rounds,
        "continuous",
        {},
    ),
)
