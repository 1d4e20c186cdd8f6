"""The oracle of the kata: keys and values, in whole blocks."""

from collections.abc import Iterator
from itertools import product

from lessons.oracle import main


def kv_bytes(
    layers: int, kv_heads: int, head_dim: int, number_bytes: int, num_tokens: int, block_size: int
) -> int:
    """Bytes that one sequence with `num_tokens` written positions holds in the KV pool."""
    blocks = -(-num_tokens // block_size)
    return 2 * layers * kv_heads * head_dim * number_bytes * blocks * block_size


def cases() -> Iterator[tuple[int, int, int, int, int, int]]:
    """Small shapes, then real ones: SmolLM2-135M, Llama-3-8B, Qwen3-1.7B."""
    for num_tokens, block_size in product(range(6), (1, 2, 4)):
        for shape in product((1, 2), (1, 3), (2,), (1, 2)):
            yield (*shape, num_tokens, block_size)
    yield 30, 3, 64, 2, 159, 16
    yield 32, 8, 128, 2, 8192, 16
    yield 28, 8, 128, 2, 1000, 16


if __name__ == "__main__":
    main(kv_bytes, cases())
