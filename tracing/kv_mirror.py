"""The block pool, kept a second time from what the engine says it did to it.

The engine writes acts ("these blocks were given to request 7"); this file works out what they mean: how often
a block is held and by whom, whether it is used, cached or free, and where it stands in the free queue. So the
hot loop pays for one fact, and every row of the trace still carries the state *after* it, which makes "the
pool at step n" the last row of each block.

    used      held by at least one block table
    cached    held by nobody, but its contents are in the prefix cache: a hit takes it back
    free      free, and worth nothing

A place in the free queue is a number that never has to be changed again: who joins the back takes the next
number up, who joins the front the next number down, and the smallest goes first.

    front: -2 -1 0 | 1 2 3 ... as the pool began, block i at i | 2^32, 2^32 + 1 ...: back

Cached blocks of a hash cache stand in the queue; those of a radix tree are out of it until they are evicted.

Invariant: ref_count = number of holders; what is held has no place in the queue. After lost records both may
be off for the blocks concerned, so nothing here asserts on what was read.
Source: vLLM 0.33 `vllm/v1/core/block_pool.py`, SGLang 0.5.23 `unified_radix_cache.py`: their rules, mirrored.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tracing.codes import Code
from tracing.radix_mirror import RadixMirror, State

FIRST_BACK_KEY = 2**32
"""Above any block id."""


@dataclass(slots=True)
class _Block:
    key: int | None
    """Place in the free queue; None: held."""
    ref_count: int = 0
    node: int = 0
    """Hash under which the prefix cache knows it; 0: not at all."""
    holders: dict[int, int | None] = field(default_factory=dict)
    """Request -> place in its block table."""
    touched_step: int = -1


@dataclass(slots=True)
class Content:
    """One content in the prefix cache: a full block and all before it, known by its chain hash."""

    parent: int
    """Hash of the block before; 0: the first block."""
    depth: int | None
    """Tokens before it; None: the core did not say its block size."""
    copies: int = 0


@dataclass(frozen=True, slots=True)
class BlockRun:
    """Neighbouring blocks to which the same happened: block j is block_id + j (or - j if num_blocks < 0)."""

    block_id: int
    num_blocks: int
    idx: int | None
    """Place of the first in the request's block table, block j: + j; None: not said."""
    state: str
    ref_count: int
    node: int
    free_key: int | None
    """Place of the first in the free queue, block j: + j; None: not in it."""
    idle_steps: int | None
    """Only of an eviction: steps since anybody used it."""


class KvMirror:
    """The pool of one engine. Blocks that were never touched are free, in the order of their ids."""

    def __init__(self) -> None:
        self.blocks: dict[int, _Block] = {}
        self.contents: dict[int, Content] = {}
        """The prefix cache by hash. Where it is a tree, `tracing.radix_mirror` keeps it instead."""
        self.tree = RadixMirror()
        self.is_radix = False
        self.block_size: int | None = None
        self._tables: dict[int, list[int]] = {}
        """Request -> blocks that it holds, in the order in which it got them."""
        self._front_key, self._back_key = 1, FIRST_BACK_KEY

    def act(
        self, code: int, ids: Sequence[int], request_id: int | None, idx: int | None, step: int
    ) -> tuple[list[tuple[int, BlockRun]], list[tuple[int, int, Content]]]:
        """Apply one record of kind BLOCKS.

        Returns runs as (place of the first block in `ids`, run), and lost cache entries as (place, hash,
        content after it), both in order.
        """
        # Upstream's radix cache hands blocks of one token back to the end of the queue, others to its front.
        is_back = code == Code.KV_FREE_BACK or (code == Code.KV_DUP_FREED and self.block_size == 1)
        if code in (Code.KV_FREE_FRONT, Code.KV_DUP_FREED) and not is_back:
            self._front_key -= len(ids)  # the given order becomes the order of the queue
        first_key = self._front_key
        runs: list[BlockRun] = []
        lost: list[tuple[int, int, Content]] = []
        for j, block_id in enumerate(ids):
            block = self._block(block_id)
            idle = None
            place = None if idx is None else idx + j
            match code:
                case Code.KV_ALLOC | Code.KV_RESERVED:
                    for holder in list(block.holders):  # only if records were lost
                        self._let_go(block_id, holder)
                    block.ref_count = 0
                    self._hold(block_id, request_id, place)
                case Code.KV_HIT:
                    self._hold(block_id, request_id, place)
                case Code.KV_UNREF | Code.KV_FREE_BACK | Code.KV_FREE_FRONT | Code.KV_DUP_FREED:
                    self._let_go(block_id, request_id)
                    if code != Code.KV_UNREF:
                        self._queue(block, None if is_back else first_key + j)
                case Code.KV_CACHED:
                    block.node = self.tree.take_block(block_id)
                case Code.KV_EVICT | Code.KV_RESET:
                    idle = step - block.touched_step if code == Code.KV_EVICT else None
                    if block.node in self.contents:
                        lost.append((j, block.node, self._drop_entry(block)))
            if code != Code.KV_EVICT:
                block.touched_step = step
            runs.append(self._describe(block_id, place, idle))
        return list(_merge(runs)), lost

    def cache(self, block_id: int, idx: int, node: int, parent: int, step: int) -> BlockRun:
        """Apply one record of kind CACHED: a full block enters the prefix cache under its hash."""
        block = self._block(block_id)
        block.node, block.touched_step = node, step
        depth = None if self.block_size is None else idx * self.block_size
        self.contents.setdefault(node, Content(parent, depth)).copies += 1
        return self._describe(block_id, idx, None)

    def act_on_node(
        self,
        code: int,
        node_id: int,
        state: State,
        request_id: int | None,
        other_id: int | None,
    ) -> tuple[list[int], list[BlockRun]]:
        """Apply one record of kind NODE; returns the nodes and the blocks whose state changed.

        Blocks change without a record of their own where an edge is cut, and where a request unlocks its
        path for good: then nothing of the tree is in its table any more.
        """
        self.is_radix = True
        nodes = self.tree.act(code, node_id, state)
        changed: list[int] = []
        if code == Code.NODE_SPLIT and other_id is not None and self.block_size:
            changed = self.tree.split_blocks(node_id, other_id, self.block_size)
            for block_id in changed:
                self._block(block_id).node = node_id
        elif request_id is not None and self.tree.lets_go(code, request_id):
            changed = self._tables.get(request_id, []).copy()
            for block_id in changed:
                self._let_go(block_id, request_id)
        return nodes, [self._describe(block_id, None, None) for block_id in changed]

    def snapshot(self) -> Iterator[tuple[int, BlockRun, list[int], list[int | None], int]]:
        """Every block ever touched, in order of ids: (id, state, holders, their places, last step)."""
        for block_id, block in sorted(self.blocks.items()):
            who = sorted(block.holders)
            places = [block.holders[request_id] for request_id in who]
            yield block_id, self._describe(block_id, None, None), who, places, block.touched_step

    def _block(self, block_id: int) -> _Block:
        block = self.blocks.get(block_id)
        if block is None:
            block = self.blocks[block_id] = _Block(key=block_id)
        return block

    def _hold(self, block_id: int, request_id: int | None, place: int | None) -> None:
        block = self._block(block_id)
        block.ref_count += 1
        block.key = None
        if request_id is not None and request_id not in block.holders:
            block.holders[request_id] = place
            self._tables.setdefault(request_id, []).append(block_id)

    def _let_go(self, block_id: int, request_id: int | None) -> None:
        block = self._block(block_id)
        block.ref_count = max(0, block.ref_count - 1)
        if request_id is not None and block.holders.pop(request_id, -1) != -1:
            table = self._tables[request_id]
            table.remove(block_id)
            if not table:
                del self._tables[request_id]

    def _queue(self, block: _Block, key: int | None) -> None:
        """Nobody holds it: it takes a place in the free queue; None: the next one at the back."""
        if key is None:
            key, self._back_key = self._back_key, self._back_key + 1
        block.ref_count, block.key = 0, key
        if self.is_radix:
            block.node = 0  # a tree keeps what it knows, so what comes back is not in it

    def _drop_entry(self, block: _Block) -> Content:
        content = self.contents[block.node]
        content.copies -= 1
        if content.copies == 0:
            del self.contents[block.node]
        block.node = 0
        return content

    def _describe(self, block_id: int, place: int | None, idle: int | None) -> BlockRun:
        block = self.blocks[block_id]
        state = "used" if block.ref_count else "cached" if block.node else "free"
        return BlockRun(*(block_id, 1, place, state, block.ref_count, block.node, block.key, idle))


def _merge(runs: list[BlockRun]) -> Iterator[tuple[int, BlockRun]]:
    """Join neighbours that differ only by their place, so that a prompt of 100 blocks is one row."""
    start = 0
    while start < len(runs):
        first, end = runs[start], start + 1
        sign = runs[end].block_id - first.block_id if end < len(runs) else 0
        while (
            end < len(runs) and abs(sign) == 1 and _continues(first, runs[end], end - start, sign)
        ):
            end += 1
        num_blocks = (end - start) * sign if end - start > 1 else 1
        yield start, replace(first, num_blocks=num_blocks)
        start = end


def _continues(first: BlockRun, other: BlockRun, j: int, sign: int) -> bool:
    def place(start: int | None) -> int | None:
        return None if start is None else start + j

    return (
        other.block_id == first.block_id + sign * j
        and (other.state, other.ref_count, other.node) == (first.state, first.ref_count, first.node)
        and other.idle_steps == first.idle_steps
        and (other.idx, other.free_key) == (place(first.idx), place(first.free_key))
    )
