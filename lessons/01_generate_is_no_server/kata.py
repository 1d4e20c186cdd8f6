"""Kata: when does each request get its first token?"""


def first_token_steps(outputs: list[int], together: bool) -> list[int]:
    """The step, from 0, of each request's first token: one after the other, or all together."""
    raise NotImplementedError
