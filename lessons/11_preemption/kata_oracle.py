"""The oracle of the kata: the running loop of vLLM 0.33, for one decode step."""

from collections.abc import Iterator
from itertools import product

from lessons.oracle import main


def preempt(lengths: list[int], num_blocks: int, block_size: int) -> tuple[list[int], int]:
    """Victims in order (indexes into lengths) and their computed tokens.

    `lengths`: computed tokens of the running sequences in order of admission. Each in turn needs
    room for one more token; when no block is free, the last of those that still run loses
    everything.
    """
    held = [_blocks(length, block_size) for length in lengths]
    free = num_blocks - sum(held)
    running, victims = list(range(len(lengths))), list[int]()
    at = 0
    while at < len(running):
        me = running[at]
        if _blocks(lengths[me] + 1, block_size) > held[me]:
            while free == 0 and me in running:
                victim = running.pop()
                victims.append(victim)
                free += held[victim]
            if me in running:
                free -= 1
        at += 1
    return victims, sum(lengths[victim] for victim in victims)


def _blocks(num_tokens: int, block_size: int) -> int:
    return -(-num_tokens // block_size)


def cases() -> Iterator[tuple[list[int], int, int]]:
    """Up to three short sequences in pools that hold them, then the lesson's own."""
    for size in (1, 2, 3):
        for lengths in product(range(1, 6), repeat=size):
            held = sum(_blocks(length, 2) for length in lengths)
            for spare in (0, 1, 2):
                yield list(lengths), held + spare, 2
    yield [64, 64, 64], 12, 16


if __name__ == "__main__":
    main(preempt, cases())
