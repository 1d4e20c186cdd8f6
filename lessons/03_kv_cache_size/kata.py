"""Kata: how much memory does a sequence hold?"""


def kv_bytes(
    layers: int, kv_heads: int, head_dim: int, number_bytes: int, num_tokens: int, block_size: int
) -> int:
    """Bytes that one sequence with `num_tokens` written positions holds in the KV pool."""
    raise NotImplementedError
