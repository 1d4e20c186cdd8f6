"""Kata: cut prompts into chunks, decodes first."""


def chunks(prompts: list[int], num_decodes: int, budget: int) -> list[list[tuple[int, int]]]:
    """For each step the (prompt index, tokens) that prompts get, until all are computed.

    Each of the num_decodes answers takes one token of every step first; prompts are served in order.
    """
    raise NotImplementedError
