"""The oracle of the kata: both ways, played step by step."""

from collections.abc import Iterator
from itertools import product

from lessons.oracle import main


def rounds(outputs: list[int], slots: int) -> tuple[int, int]:
    """Steps until all requests have their tokens: (static batching, continuous batching)."""
    static = sum(max(outputs[i : i + slots]) for i in range(0, len(outputs), slots))
    continuous, running, waiting = 0, list[int](), list(outputs)
    while running or waiting:
        while waiting and len(running) < slots:
            running.append(waiting.pop(0))
        running = [left - 1 for left in running if left > 1]
        continuous += 1
    return static, continuous


def cases() -> Iterator[tuple[list[int], int]]:
    """Up to four requests of up to four tokens on one to three places, then the lesson's own."""
    for size in range(1, 5):
        for slots in (1, 2, 3):
            for outputs in product(range(1, 5), repeat=size):
                yield list(outputs), slots
    yield [2, 5, 3], 2
    yield [8, 40, 12, 24, 8, 32, 16, 20], 4


if __name__ == "__main__":
    main(rounds, cases())
