"""Kata: which positions does each step of a request compute, and for which position does it sample?"""


def plan(num_prompt: int, num_cached: int, max_tokens: int) -> list[tuple[int, int, int]]:
    """(first position computed, number computed, position sampled) of each step of a lone request."""
    raise NotImplementedError
