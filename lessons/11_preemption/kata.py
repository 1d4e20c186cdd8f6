"""Kata: who is preempted in this step, and how much work is lost?"""


def preempt(lengths: list[int], num_blocks: int, block_size: int) -> tuple[list[int], int]:
    """Victims in order (indexes into lengths) and their computed tokens.

    `lengths`: computed tokens of the running sequences in order of admission. Each in turn needs
    room for one more token; when no block is free, the last of those that still run loses
    everything.
    """
    raise NotImplementedError
