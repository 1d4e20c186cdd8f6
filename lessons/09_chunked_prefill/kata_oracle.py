"""The oracle of the kata: one token budget a step, running sequences first, as in vLLM 0.33."""

from collections.abc import Iterator
from itertools import product

from lessons.oracle import main


def chunks(prompts: list[int], num_decodes: int, budget: int) -> list[list[tuple[int, int]]]:
    """For each step the (prompt index, tokens) that prompts get, until all are computed.

    Each of the num_decodes answers takes one token of every step first; prompts are served in order.
    """
    steps: list[list[tuple[int, int]]] = []
    left, first = list(prompts), 0
    while first < len(left):
        room, step = budget - num_decodes, list[tuple[int, int]]()
        while room > 0 and first < len(left):
            got = min(room, left[first])
            step.append((first, got))
            room -= got
            left[first] -= got
            first += left[first] == 0
        steps.append(step)
    return steps


def cases() -> Iterator[tuple[list[int], int, int]]:
    """Up to three short prompts, then the lesson's own."""
    for size in (1, 2, 3):
        for prompts in product(range(1, 6), repeat=size):
            for num_decodes in (0, 1, 2):
                for budget in (num_decodes + 1, num_decodes + 3):
                    yield list(prompts), num_decodes, budget
    yield [700, 700, 700], 1, 1024
    yield [700, 700, 700], 1, 128


if __name__ == "__main__":
    main(chunks, cases())
