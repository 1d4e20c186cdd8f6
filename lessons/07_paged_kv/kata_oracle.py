"""The oracle of the kata: whole blocks, in order, head of line blocks the rest."""

from collections.abc import Iterator
from itertools import product

from lessons.oracle import main


def fit(num_blocks: int, block_size: int, requests: list[tuple[int, int, int]]) -> tuple[int, int]:
    """How many of `requests`, in order, are in the pool at once: (reserved, paged).

    A request is (prompt tokens, positions written in the end, longest length). The first that does
    not fit ends the count.
    """
    written = [w for _, w, _ in requests]
    longest = [most for _, _, most in requests]
    return _count(num_blocks, block_size, longest), _count(num_blocks, block_size, written)


def _count(num_blocks: int, block_size: int, sizes: list[int]) -> int:
    for i, size in enumerate(sizes):
        num_blocks -= -(-size // block_size)
        if num_blocks < 0:
            return i
    return len(sizes)


def cases() -> Iterator[tuple[int, int, list[tuple[int, int, int]]]]:
    """Up to three requests of a few sizes, then the lesson's own."""
    kinds = [(1, 1, 1), (1, 2, 4), (2, 3, 3), (2, 3, 8)]
    for num_blocks in (1, 2, 4):
        for size in (1, 2, 3):
            for requests in product(kinds, repeat=size):
                yield num_blocks, 2, list(requests)
    yield 32, 16, [(20, 40, 128)] * 8


if __name__ == "__main__":
    main(fit, cases())
