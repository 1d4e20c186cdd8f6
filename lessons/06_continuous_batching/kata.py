"""Kata: how many steps do static and continuous batching take?

All requests are there from the start and are served in their order; each step gives one token to
each request in it.
"""


def rounds(outputs: list[int], slots: int) -> tuple[int, int]:
    """Steps until all requests have their tokens: (static batching, continuous batching)."""
    raise NotImplementedError
