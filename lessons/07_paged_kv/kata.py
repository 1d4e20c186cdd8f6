"""Kata: how many requests fit in a pool, reserved and paged?"""


def fit(num_blocks: int, block_size: int, requests: list[tuple[int, int, int]]) -> tuple[int, int]:
    """How many of `requests`, in order, are in the pool at once: (reserved, paged).

    A request is (prompt tokens, positions written in the end, longest length). The first that does
    not fit ends the count.
    """
    raise NotImplementedError
