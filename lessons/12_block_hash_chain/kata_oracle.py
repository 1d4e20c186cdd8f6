"""The oracle of the kata: the rule of vLLM 0.33, written without the engine."""

from collections.abc import Iterator
from itertools import product

from lessons.oracle import main


def cached_tokens(stored: list[list[int]], prompt: list[int], block_size: int) -> int:
    """Tokens of `prompt` that are found, when the prompts in `stored` were computed before it."""
    known = set()
    for tokens in stored:
        known.update(_names(tokens, len(tokens), block_size))
    found = 0
    for name in _names(prompt, len(prompt) - 1, block_size):
        if name not in known:
            break
        found += block_size
    return found


def _names(tokens: list[int], limit: int, block_size: int) -> list[int]:
    """Names of the full blocks within the first `limit` tokens."""
    names, parent = [], 0
    for end in range(block_size, limit + 1, block_size):
        parent = hash((parent, tuple(tokens[end - block_size : end])))
        names.append(parent)
    return names


def cases() -> Iterator[tuple[list[list[int]], list[int], int]]:
    """All prompts up to five tokens of two kinds, after one stored prompt; then some longer ones."""
    for size in range(1, 6):
        for block_size, stored_size in product((1, 2), range(1, size + 1)):
            for stored in product((1, 2), repeat=stored_size):
                for prompt in product((1, 2), repeat=size):
                    yield [list(stored)], list(prompt), block_size
    for length in (15, 31, 63, 64, 65):
        yield [list(range(length))], list(range(length)), 16
        yield [list(range(40)), list(range(48))], list(range(length)), 16


if __name__ == "__main__":
    main(cached_tokens, cases())
