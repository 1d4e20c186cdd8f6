"""The block pool of a replayed engine: rows of kv_event applied to blocks.

Rows carry the state after them, so applying is assignment; what is worked out here is only who holds a
block, whose tokens it had last, and when a request's table begins and ends.

Invariant: a request is in `held` exactly as long as its block table is not empty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from operator import itemgetter
from typing import Any

from tracing.codes import Code

HOLD = (Code.KV_ALLOC, Code.KV_HIT, Code.KV_RESERVED)
_LET_GO = (
    *(Code.KV_UNREF, Code.KV_FREE_BACK, Code.KV_FREE_FRONT, Code.KV_DUP_FREED),
    Code.NODE_UNLOCK,
)

_COLUMNS = (
    *("step", "code", "block_id", "num_blocks", "request_id", "idx", "state", "ref_count"),
    *("node_id", "free_key"),
)


@dataclass(slots=True)
class Block:
    """One KV block; columns of `kv_at.sql` and `block_use.sql`."""

    block_id: int
    free_key: int | None
    """Place in the free queue, smallest out first; None: not in it."""
    state: str = "free"
    """used | cached | free."""
    ref_count: int = 0
    node_id: int = 0
    holders: dict[int, int | None] = field(default_factory=dict)
    """Request -> place in its block table."""
    last_owner: int | None = None
    last_idx: int | None = None
    touched_step: int | None = None
    """Last step in which anything but an eviction happened to it."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A run of neighbouring blocks whose contents were dropped."""

    seq: int
    block_id: int
    num_blocks: int
    """Ids go up; negative: they go down."""
    owner: int | None
    """Whose tokens they held; None: not known."""
    idx: int | None
    """Place of the first in that one's table."""
    other: int | None
    """Who gets the room."""
    idle_steps: int | None


class Turn(Enum):
    """What a row means for the request that it names."""

    NONE = 0
    BEGINS = 1
    """It holds its first block."""
    ENDS = 2
    """It has let go of its last one."""


class Pool:
    """All blocks of one engine, by id."""

    def __init__(self, columns: Sequence[str], num_blocks: int | None) -> None:
        """`columns`: of table kv_event. `num_blocks` counts block 0, which is never used; None: unknown."""
        self._place = {name: i for i, name in enumerate(columns)}
        self._columns_of = itemgetter(*(self._place[name] for name in _COLUMNS))
        self.blocks = {i: Block(i, free_key=i) for i in range(1, num_blocks or 0)}
        self.held: dict[int, int] = {}
        """Request -> number of blocks that it holds."""
        self.num_used = 0
        self.changed: set[int] = set()
        """Blocks that changed since somebody emptied it: a picture of all of them need not be drawn anew."""

    def load(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take a keyframe's blocks."""
        for row in rows:
            holders = dict(zip(row["holders"], row["idxs"], strict=True))
            self.num_used += row["state"] == "used"
            self.blocks[row["block_id"]] = Block(
                *(row["block_id"], row["free_key"], row["state"], row["ref_count"], row["node_id"]),
                *(holders, row["last_owner"], row["last_idx"], row["touched_step"]),
            )
            for request_id in holders:
                self.held[request_id] = self.held.get(request_id, 0) + 1

    def apply(self, row: Sequence[Any]) -> Turn:
        """Apply one row of kv_event."""
        (step, code, block_id, num_blocks, request_id, idx, state, refs, node, key) = (
            self._columns_of(row)
        )
        turn, sign = Turn.NONE, 1 if num_blocks > 0 else -1
        for j in range(abs(num_blocks)):
            block = self._block(block_id + sign * j)
            self.changed.add(block.block_id)
            self.num_used += (state == "used") - (block.state == "used")
            block.state, block.ref_count, block.node_id = state, refs, node
            block.free_key = None if key is None else key + j
            if code != Code.KV_EVICT:
                block.touched_step = step
            if request_id is None:
                continue
            if code in HOLD:
                turn = self._hold(block, request_id, None if idx is None else idx + j) or turn
            elif code in _LET_GO:
                turn = self._let_go(block, request_id) or turn
        return turn

    def eviction(self, row: Sequence[Any]) -> Eviction:
        """Who loses what by a row with code KV_EVICT; asked before or after it is applied."""
        place = self._place
        block = self._block(row[place["block_id"]])
        return Eviction(
            *(row[place["seq"]], block.block_id, row[place["num_blocks"]]),
            *(block.last_owner, block.last_idx),
            *(row[place["other_id"]], row[place["idle_steps"]]),
        )

    def eviction_order(self) -> list[Block]:
        """Blocks of the free queue, next out first."""
        free = [block for block in self.blocks.values() if block.free_key is not None]
        return sorted(free, key=lambda block: block.free_key or 0)

    def table(self, request_id: int) -> list[Block]:
        """The blocks that a request holds, in the order of its block table."""
        own = [block for block in self.blocks.values() if request_id in block.holders]
        return sorted(own, key=lambda block: block.holders[request_id] or 0)

    def _block(self, block_id: int) -> Block:
        block = self.blocks.get(block_id)
        if block is None:
            block = self.blocks[block_id] = Block(block_id, free_key=block_id)
        return block

    def _hold(self, block: Block, request_id: int, idx: int | None) -> Turn | None:
        block.last_owner, block.last_idx = request_id, idx
        if request_id in block.holders:
            return None
        block.holders[request_id] = idx
        self.held[request_id] = self.held.get(request_id, 0) + 1
        return Turn.BEGINS if self.held[request_id] == 1 else None

    def _let_go(self, block: Block, request_id: int) -> Turn | None:
        if request_id not in block.holders:
            return None
        del block.holders[request_id]
        self.held[request_id] -= 1
        if self.held[request_id]:
            return None
        del self.held[request_id]
        return Turn.ENDS
