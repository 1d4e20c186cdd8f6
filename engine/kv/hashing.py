"""Block hashes: a block is known by its tokens *and* everything before them.

    H0 = sha256(NONE_HASH, tokens of block 0, extra)     extra: what else must be equal (salt)
    H1 = sha256(H0,        tokens of block 1, extra)     ...

One hash therefore names a whole prefix, and looking up a prompt is walking its hashes until the first miss.
The salt goes into block 0 alone; the chain carries it on. Hashes equal vLLM's own, so a trace can be compared
with vLLM's KV events.

Source: vLLM 0.33 `vllm/v1/core/kv_cache_utils.py` (hash_block_tokens, generate_block_hash_extra_keys) with
`vllm/utils/hashing.py`: SHA-256 over the triple, pickled (`sha256`, the default) or as canonical CBOR
(`sha256_cbor`, the same in any language).
"""

import pickle
from collections.abc import Sequence
from hashlib import sha256
from typing import Literal

import cbor2

HashAlgo = Literal["sha256", "sha256_cbor"]
ExtraKeys = tuple[tuple[str | int, ...], ...] | None


class BlockHasher:
    """Hashes blocks of one size with one algorithm."""

    def __init__(self, block_size: int, algo: HashAlgo = "sha256") -> None:
        self.block_size = block_size
        self._algo = algo
        self.none_hash = self._digest("vllm-none-hash")
        """Parent of every first block."""

    def hash_block(
        self, parent: bytes | None, tokens: Sequence[int], extra: ExtraKeys = None
    ) -> bytes:
        """Hash of one full block after its parent (None: it is the first)."""
        return self._digest((parent or self.none_hash, tuple(tokens), extra))

    def extend(self, hashes: list[bytes], token_ids: Sequence[int], cache_salt: str | None) -> None:
        """Append the hash of every block that token_ids has filled since the last call. O(new tokens)."""
        size = self.block_size
        for i in range(len(hashes), len(token_ids) // size):
            extra: ExtraKeys = (("cache_salt", cache_salt),) if cache_salt and i == 0 else None
            parent = hashes[-1] if hashes else None
            hashes.append(self.hash_block(parent, token_ids[i * size : (i + 1) * size], extra))

    def _digest(self, value: object) -> bytes:
        if self._algo == "sha256_cbor":
            return sha256(cbor2.dumps(value, canonical=True)).digest()
        return sha256(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)).digest()
