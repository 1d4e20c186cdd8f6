"""The pool of KV blocks and the queue in which free ones wait.

The idea: a free block keeps its contents, and its entry in the prefix cache, until somebody needs the room.
So freeing costs nothing, a hit can take a block back out of the middle of the queue, and the order of the
queue *is* the eviction order. Blocks without an entry are worth nothing and go to the front; blocks with one
go to the back.

Invariant: every block but block 0 is either in the free queue (ref_count 0) or held by ref_count tables.

Source: vLLM 0.33 `vllm/v1/core/block_pool.py`, `vllm/v1/core/kv_cache_utils.py` (FreeKVCacheBlockQueue).
"""

from collections.abc import Iterable, Iterator, Sequence


class Block:
    """One physical block: room for the keys and values of block_size tokens, in every layer."""

    __slots__ = ("block_id", "hash", "next_free", "prev_free", "ref_count")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_count = 0
        """How many block tables hold it."""
        self.hash: bytes | None = None
        """Key of its entry in the prefix cache; None: no entry."""
        self.prev_free: Block | None = None
        self.next_free: Block | None = None

    def __repr__(self) -> str:
        return f"Block({self.block_id}, refs={self.ref_count})"


class FreeQueue:
    """A doubly linked list through the blocks themselves, because a hit removes from the middle in O(1).

    front <-> b <-> b <-> ... <-> back, with two sentinels that are no blocks of the pool.
    """

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._front, self._back = Block(-1), Block(-1)
        self._front.next_free, self._back.prev_free = self._back, self._front
        self._length = 0
        self.append(blocks)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Block]:
        block = self._front.next_free
        while block is not None and block is not self._back:
            yield block
            block = block.next_free

    def append(self, blocks: Iterable[Block]) -> None:
        """Put blocks at the back, in the order given."""
        for block in blocks:
            assert self._back.prev_free is not None
            self._link(self._back.prev_free, block, self._back)

    def prepend(self, blocks: Sequence[Block]) -> None:
        """Put blocks at the front so that the first given is the next one out."""
        for block in reversed(blocks):
            assert self._front.next_free is not None
            self._link(self._front, block, self._front.next_free)

    def popleft(self) -> Block:
        """Take the next block to be given out."""
        block = self._front.next_free
        assert block is not None
        assert block is not self._back, "the caller checks num_free first"
        self.remove(block)
        return block

    def remove(self, block: Block) -> None:
        """Take a block out of the middle: it was hit."""
        assert block.prev_free is not None
        assert block.next_free is not None
        block.prev_free.next_free, block.next_free.prev_free = block.next_free, block.prev_free
        block.prev_free = block.next_free = None
        self._length -= 1

    def _link(self, left: Block, block: Block, right: Block) -> None:
        left.next_free, right.prev_free = block, block
        block.prev_free, block.next_free = left, right
        self._length += 1


class BlockPool:
    """All blocks. Block 0 is the null block: never given out, so that id 0 can mean "none" in tensors."""

    def __init__(self, num_blocks: int) -> None:
        self.blocks = [Block(i) for i in range(num_blocks)]
        self.free_queue = FreeQueue(self.blocks[1:])
        self.num_cached_free = 0
        """Free blocks that still have a cache entry: evictable, and a hit away from being useful."""

    @property
    def num_free(self) -> int:
        """Blocks that no table holds, whether or not the prefix cache knows them."""
        return len(self.free_queue)

    @property
    def num_used(self) -> int:
        """Blocks that some table holds."""
        return len(self.blocks) - 1 - len(self.free_queue)

    def take(self, num_blocks: int) -> list[Block]:
        """The next blocks to be reused, now held once. They may still carry a cache entry: evict it."""
        taken = [self.free_queue.popleft() for _ in range(num_blocks)]
        for block in taken:
            block.ref_count = 1
            self.num_cached_free -= block.hash is not None
        return taken

    def touch(self, blocks: Iterable[Block]) -> None:
        """Hold blocks that were hit; idle ones leave the free queue."""
        for block in blocks:
            if block.ref_count == 0:
                self.free_queue.remove(block)
                self.num_cached_free -= block.hash is not None
            block.ref_count += 1

    def release(self, blocks: Iterable[Block]) -> tuple[list[Block], list[Block], list[Block]]:
        """Let blocks go, in this order. Returns those still shared, those now at the back, at the front."""
        shared: list[Block] = []
        back: list[Block] = []
        front: list[Block] = []
        for block in blocks:
            assert block.ref_count > 0, f"{block} freed twice"
            block.ref_count -= 1
            if block.ref_count:
                shared.append(block)
            elif block.hash is not None:
                back.append(block)
            else:
                front.append(block)
        self.free_queue.append(back)
        self.free_queue.prepend(front)
        self.num_cached_free += len(back)
        return shared, back, front
