"""Kata: how many tokens of a prompt does the prefix cache have?

Blocks are named by a chain: hash of (name of the block before, tokens of this block). Only full
blocks have a name, and the last token of a prompt is always computed.
"""


def cached_tokens(stored: list[list[int]], prompt: list[int], block_size: int) -> int:
    """Tokens of `prompt` that are found, when the prompts in `stored` were computed before it."""
    raise NotImplementedError
