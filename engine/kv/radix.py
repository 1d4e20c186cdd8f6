"""Radix KV: running sequences share the tree's blocks for their head and own private ones for their tail.

    admit        lock the longest cached prefix and put its blocks into the table
    append       private blocks for the tokens of this step, evicting cached ones if there are too few
    checkpoint   give what is computed to the tree: whole blocks change hands, the table is rewritten to the
                 tree's copy where somebody else was first, and the lock moves to the new end
    free         private blocks go back to the pool, the lock goes; the rest stays in the tree until evicted

A checkpoint follows the end of a prefill, each chunk of one, and the end of the request; decodes do not
publish. A last block that is not full stays private.

Order of allocation, as upstream: blocks of one token come from the front of the queue and go back to its end,
larger blocks go back to the front.

Invariant: free + evictable + protected + private blocks = the pool; `seq.num_cached_blocks` is the part of a
table that belongs to the tree.

Source: SGLang 0.5.23 `sglang/srt/mem_cache/unified_radix_cache.py` (checkpoint_into_tree),
`mem_cache/common.py` (release_kv_cache), `mem_cache/allocation.py`, `mem_cache/allocator/`.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from engine.config import EngineConfig
from engine.kv.block_pool import Block, BlockPool
from engine.kv.radix_cache import RadixCache
from engine.kv.radix_tree import Match, Namespace, Node, blocks_to, child_key
from engine.sequence import Sequence
from tracing.record import Code, Recorder


@dataclass(slots=True)
class Hold:
    """A running sequence's grip on the tree."""

    node: Node
    """Locked, with all above it."""
    num_inserted_tokens: int = 0
    """What it has published: those nodes get no second hit from it."""


class RadixKV:
    """Block tables of all sequences over one pool and one tree."""

    def __init__(self, config: EngineConfig, recorder: Recorder) -> None:
        assert config.num_blocks is not None
        self.pool = BlockPool(config.num_blocks)
        self.cache = RadixCache(config.block_size, config.sglang, recorder)
        self.block_size = config.block_size
        self.num_tokens = (config.num_blocks - 1) * config.block_size
        """Size of the pool."""
        self._enabled = config.enable_prefix_caching
        self._holds: dict[int, Hold] = {}
        self._recorder = recorder

    @property
    def num_used(self) -> int:
        """Blocks in use: private or locked."""
        return self.pool.num_used - self.cache.num_evictable

    @property
    def num_free(self) -> int:
        """Blocks that can be given out, cached or not."""
        return self.pool.num_free + self.cache.num_evictable

    @property
    def num_cached_free(self) -> int:
        """Cached blocks that nobody uses."""
        return self.cache.num_evictable

    @property
    def num_room_tokens(self) -> int:
        """Tokens that can be given room, evicting all that may be evicted."""
        return self.num_free * self.block_size

    def track(self, seq: Sequence) -> None:
        """Nothing is hashed: the tree compares tokens."""

    def enter_full_blocks(self, seq: Sequence, num_tokens: int) -> None:
        """Nothing is shared between checkpoints."""

    def match(self, seq: Sequence, limit: int) -> Match:
        """Longest cached prefix of the sequence's first `limit` tokens. Refreshes its recency."""
        if not self._enabled or seq.request.skip_reading_prefix_cache:
            return Match(self.cache.root, 0)
        return self.cache.match(seq.token_ids, limit, namespace_of(seq), seq.request_id)

    def lookup(self, seq: Sequence) -> Match:
        """The prefix that an admission may use: short of the last token, which is computed for its logits."""
        return self.match(seq, seq.num_tokens - 1)

    def reset_cache(self) -> int:
        """Forget every prefix, while nothing is held; returns how many blocks held one."""
        assert self.num_used == 0
        num_blocks = self.cache.num_evictable
        self.make_room(self.num_tokens, None)
        return num_blocks

    def given_up(self, seq: Sequence, hit: Match) -> int:
        """Tokens that were cached too but are recomputed for logits (the full-hit rule)."""
        at, size = hit.num_tokens, self.block_size
        if seq.num_tokens != at + size:
            return 0
        last = child_key(seq.token_ids, at, size, namespace_of(seq))
        return size if last in hit.node.children else 0

    def num_room_beside(self, hit: Match) -> int:
        """Tokens that can be given room once this prefix is locked."""
        return self.num_room_tokens - self.cache.num_idle(hit.node) * self.block_size

    def holds(self, seq: Sequence) -> bool:
        """Whether the sequence has been admitted and not freed."""
        return seq.request_id in self._holds

    def held_node(self, seq: Sequence) -> Node:
        """The node that a running sequence has locked."""
        return self._holds[seq.request_id].node

    def admit(self, seq: Sequence, hit: Match) -> None:
        """Lock the prefix for the sequence; its table starts with the prefix's blocks."""
        self.cache.lock(hit.node, seq.request_id)
        self._holds[seq.request_id] = Hold(hit.node)
        seq.block_table = hit.blocks()
        seq.num_cached_blocks = len(seq.block_table)
        seq.num_computed_tokens = hit.num_tokens
        ids = [block.block_id for block in seq.block_table]
        self._recorder.blocks(Code.KV_HIT, ids, seq.request_id, idx=0)

    def make_room(self, num_tokens: int, other: int | None) -> bool:
        """Evict until so many tokens are free, for a request; False if there is not so much to evict."""
        short = num_tokens - self.pool.num_free * self.block_size
        if short > 0:
            for node in self.cache.evict(short, other):
                self._give_back(node.blocks, None, other)
        return num_tokens <= self.pool.num_free * self.block_size

    def num_new_blocks(self, seq: Sequence, num_new_tokens: int) -> int:
        """Blocks that the sequence's next tokens need beyond its table."""
        num_tokens = seq.num_computed_tokens + num_new_tokens
        return -(-num_tokens // self.block_size) - len(seq.block_table)

    def append(self, seq: Sequence, num_new_tokens: int) -> tuple[int, ...]:
        """Blocks for the next tokens, for which there is room; returns the ids appended, often none."""
        taken = self.pool.take(self.num_new_blocks(seq, num_new_tokens))
        ids = tuple(block.block_id for block in taken)
        self._recorder.blocks(Code.KV_ALLOC, ids, seq.request_id, idx=len(seq.block_table))
        seq.block_table += taken
        return ids

    def checkpoint(self, seq: Sequence) -> None:
        """Publish the whole blocks of what is computed, and use the tree's copy from now on."""
        if not self._enabled:
            return
        hold, size, who = self._holds[seq.request_id], self.block_size, seq.request_id
        num_blocks, num_owned = seq.num_computed_tokens // size, seq.num_cached_blocks
        tokens = seq.token_ids[: num_blocks * size]
        namespace, priority = namespace_of(seq), seq.request.priority
        done = self.cache.insert(
            tokens,
            seq.block_table[:num_blocks],
            namespace,
            priority=priority,
            num_owned=num_owned * size,
            num_counted=hold.num_inserted_tokens,
            request_id=who,
        )
        hold.num_inserted_tokens = max(hold.num_inserted_tokens, len(tokens))
        prompt_end = seq.num_prompt_tokens // size * size
        if 0 < prompt_end < len(tokens):
            self.cache.cut(tokens[:prompt_end], namespace, priority + 1, who)
        for run in done.duplicates:
            self._recorder.blocks(Code.KV_DUP_FREED, [block.block_id for block in run], who)
            self.put_back(run)
        if done.duplicates:
            shared = blocks_to(done.node)[num_owned : done.num_cached_tokens // size]
            seq.block_table[num_owned : num_owned + len(shared)] = shared
            ids = [block.block_id for block in shared]
            self._recorder.blocks(Code.KV_HIT, ids, who, idx=num_owned)
        seq.num_cached_blocks = num_blocks
        if done.node is not hold.node:
            self.cache.lock(done.node, who)
            self.cache.unlock(hold.node, who)
            hold.node = done.node

    def free(self, seq: Sequence) -> None:
        """Let go of everything; what was not published is lost."""
        hold = self._holds.pop(seq.request_id)
        self._give_back(seq.block_table[seq.num_cached_blocks :], seq.request_id, None)
        self.cache.unlock(hold.node, seq.request_id)
        seq.block_table = []
        seq.num_cached_blocks = 0

    def _give_back(self, blocks: Seq[Block], request_id: int | None, other: int | None) -> None:
        code = Code.KV_FREE_BACK if self.block_size == 1 else Code.KV_FREE_FRONT
        ids = [block.block_id for block in blocks]
        self._recorder.blocks(code, ids, request_id, other=other)
        self.put_back(blocks)

    def put_back(self, blocks: Seq[Block]) -> None:
        """Blocks that nobody holds any more return to the queue."""
        for block in blocks:
            assert block.ref_count == 1, f"{block} freed twice"
            block.ref_count = 0
        if self.block_size == 1:
            self.pool.free_queue.append(blocks)
        else:
            self.pool.free_queue.prepend(blocks)


def namespace_of(seq: Sequence) -> Namespace:
    """An empty salt is no salt; an empty extra_key is a name like any other."""
    return seq.request.extra_key, seq.request.cache_salt or None
