"""The prefix cache: from the hash of a full block to the blocks that hold it.

The idea: prefixes are found without a tree. Each block's hash covers all tokens before it, so a dictionary is
enough, and the longest cached prefix is the run of hits from block 0 on. Two sequences that compute the same
text side by side make the same block twice; both copies stay (block tables are append-only), and a hit takes
the copy that was entered first.

Invariant: an entry lives exactly as long as its block keeps `block.hash`, in use or free; only an entry that
was withdrawn is gone before.

Source: vLLM 0.33 `vllm/v1/core/block_pool.py` (BlockHashToBlockMap),
`vllm/v1/core/single_type_kv_cache_manager.py` (find_longest_cache_hit).
"""

from collections.abc import Iterable

from engine.kv.block_pool import Block


class BlockHashCache:
    """Which block holds which prefix."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, dict[int, Block]] = {}

    def __len__(self) -> int:
        """Number of blocks with an entry, copies included."""
        return sum(len(copies) for copies in self._blocks.values())

    def __contains__(self, hash_: bytes) -> bool:
        return hash_ in self._blocks

    def longest_prefix(self, hashes: Iterable[bytes]) -> list[Block]:
        """The run of cached blocks from the start, up to the first miss."""
        found: list[Block] = []
        for hash_ in hashes:
            copies = self._blocks.get(hash_)
            if copies is None:
                break
            found.append(next(iter(copies.values())))
        return found

    def insert(self, block: Block, hash_: bytes) -> int:
        """Enter a full block; returns how many blocks now hold this content."""
        block.hash = hash_
        copies = self._blocks.setdefault(hash_, {})
        copies[block.block_id] = block
        return len(copies)

    def evict(self, block: Block) -> None:
        """Drop the block's entry: it is about to be overwritten."""
        self.withdraw(block)
        block.hash = None

    def withdraw(self, block: Block) -> None:
        """Let nobody find the block any more; it keeps its hash, and with it its place in the free queue."""
        assert block.hash is not None
        copies = self._blocks.get(block.hash, {})
        copies.pop(block.block_id, None)
        if not copies:
            self._blocks.pop(block.hash, None)
