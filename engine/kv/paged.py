"""Paged KV: sequences get blocks one by one, as they grow, from anywhere in the pool.

Three acts, in the order in which a sequence meets them:

    lookup    which of its first blocks does the cache already hold? (once, at admission)
    allocate  hold those, take new blocks for the tokens of this step, enter what becomes full
    free      let go of everything, tail first, so that a chain is evicted from its end

Blocks enter the cache when they are *allocated*, before they are computed: whoever is admitted later in the
same step hits them, and is right to, for the step computes them in row order.

Source: PagedAttention (Kwon et al. 2023, section 4); vLLM 0.33 `vllm/v1/core/kv_cache_manager.py`.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from engine.config import EngineConfig
from engine.kv.block_pool import Block, BlockPool
from engine.kv.hash_cache import BlockHashCache
from engine.kv.hashing import BlockHasher
from engine.sequence import Sequence
from tracing.record import Code, Recorder


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why an allocation failed: blocks needed, blocks free, blocks that must stay free."""

    code: Code
    need: int
    free: int
    keep: int = 0


class PagedKV:
    """Block tables of all sequences over one pool."""

    def __init__(self, config: EngineConfig, recorder: Recorder) -> None:
        assert config.num_blocks is not None
        assert config.max_model_len is not None
        self.pool = BlockPool(config.num_blocks)
        self.cache = BlockHashCache() if config.enable_prefix_caching else None
        self._block_size = config.block_size
        self._hasher = BlockHasher(config.block_size, config.prefix_caching_hash_algo)
        self._max_model_len = config.max_model_len
        self._reserve_full = config.scheduler_reserve_full_isl
        # The null block counts in the share, as upstream computes it from the pool's size.
        self._watermark_blocks = int(config.watermark * config.num_blocks)
        self._recorder = recorder

    @property
    def num_used(self) -> int:
        """Blocks in use."""
        return self.pool.num_used

    @property
    def num_free(self) -> int:
        """Blocks that can be given out, cached or not."""
        return self.pool.num_free

    @property
    def num_cached_free(self) -> int:
        """Free blocks that a later prompt could still hit."""
        return self.pool.num_cached_free

    def track(self, seq: Sequence) -> None:
        """Bring the sequence's block hashes up to its tokens; call whenever tokens were added."""
        if self.cache is not None:
            self._hasher.extend(seq.block_hashes, seq.token_ids, seq.request.cache_salt)

    def lookup(self, seq: Sequence) -> list[Block]:
        """Longest cached prefix in whole blocks, short of the last token.

        At least one token must be computed to get logits, so a prompt that is cached entirely gives up its
        last *block*, not its last token.
        """
        if self.cache is None or seq.request.skip_reading_prefix_cache:
            return []
        most = (seq.num_tokens - 1) // self._block_size
        return self.cache.longest_prefix(seq.block_hashes[:most])

    def given_up(self, seq: Sequence, hit: Seq[Block]) -> int:
        """Tokens that were cached too but are recomputed for logits (the full-hit rule)."""
        i = len(hit)
        full = seq.num_tokens == (i + 1) * self._block_size and self.cache is not None
        return self._block_size if full and seq.block_hashes[i] in (self.cache or ()) else 0

    def admit(
        self, seq: Sequence, num_new_tokens: int, hit: Seq[Block], *, alone: bool
    ) -> tuple[int, ...] | Shortage:
        """First allocation of a sequence: checks room for all of it, then takes blocks for this step only.

        alone: nothing is running, so the watermark does not apply (else nothing would ever start).
        Returns the ids of the whole block table, hits first.
        """
        keep = 0 if alone else self._watermark_blocks
        free, idle = self.num_free, sum(block.ref_count == 0 for block in hit)
        if self._reserve_full:
            whole = min(seq.num_tokens, self._max_model_len)
            need = self._blocks_for(whole) - len(hit) + idle
            if need + keep > free:
                return self._shortage(Code.STOP_FULL_PROMPT, need, free, keep)
        need = self._need(seq, len(hit) * self._block_size + num_new_tokens, len(hit)) + idle
        if need + keep > free:
            return self._shortage(Code.STOP_NO_BLOCKS, need, free, keep)
        self.pool.touch(hit)
        seq.block_table = list(hit)
        seq.num_cached_blocks = len(hit)
        ids = tuple(block.block_id for block in hit)
        self._recorder.blocks(Code.KV_HIT, ids, seq.request_id, idx=0)
        seq.num_computed_tokens = len(hit) * self._block_size
        return ids + self._grow(seq, need - idle, num_new_tokens)

    def append(self, seq: Sequence, num_new_tokens: int) -> tuple[int, ...] | Shortage:
        """Blocks for the next tokens of a running sequence; returns the ids appended, often none."""
        need = self._need(seq, seq.num_computed_tokens + num_new_tokens, len(seq.block_table))
        if need > self.num_free:
            return Shortage(Code.STOP_NO_BLOCKS, need, self.num_free)
        return self._grow(seq, need, num_new_tokens)

    def enter_full_blocks(self, seq: Sequence, num_tokens: int) -> None:
        """Enter blocks in the cache that lie within the sequence's first num_tokens tokens.

        Drafts never count: a block that holds a rejected token must not be found by anyone.
        """
        if self.cache is None:
            return
        full = min(num_tokens, seq.num_tokens) // self._block_size
        for i in range(seq.num_cached_blocks, full):
            block, hash_ = seq.block_table[i], seq.block_hashes[i]
            copies = self.cache.insert(block, hash_)
            code = Code.KV_CACHED if copies == 1 else Code.KV_CACHED_COPY
            parent = seq.block_hashes[i - 1] if i else None
            self._recorder.cached(code, block.block_id, seq.request_id, i, hash_, parent)
        seq.num_cached_blocks = max(seq.num_cached_blocks, full)

    def free(self, seq: Sequence) -> None:
        """Let go of all its blocks, the tail of the chain first.

        Blocks that were entered for tokens which no step computes after all are found by nobody: the step
        may have taken the sequence out again for a more urgent one. (vLLM 0.33 leaves such entries in; who
        hits one there reads what was never written.)
        """
        if self.cache is not None:
            computed = seq.num_computed_tokens // self._block_size
            for block in seq.block_table[computed : seq.num_cached_blocks]:
                self.cache.withdraw(block)
        shared, back, front = self.pool.release(reversed(seq.block_table))
        who, record = seq.request_id, self._recorder.blocks
        for code, blocks in (
            (Code.KV_UNREF, shared),
            (Code.KV_FREE_BACK, back),
            (Code.KV_FREE_FRONT, front),
        ):
            record(code, [block.block_id for block in blocks], who)
        seq.block_table = []
        seq.num_cached_blocks = 0

    def reset_cache(self) -> int:
        """Forget every prefix, while nothing is held; returns how many blocks held one."""
        assert self.num_used == 0
        cached = [block for block in self.pool.free_queue if block.hash is not None]
        if self.cache is not None:
            for block in cached:
                self.cache.evict(block)
        self.pool.num_cached_free = 0
        self._recorder.blocks(Code.KV_RESET, [block.block_id for block in cached], None)
        return len(cached)

    def _grow(self, seq: Sequence, num_blocks: int, num_new_tokens: int) -> tuple[int, ...]:
        """Take blocks from the front of the queue (evicting their entries) and enter what will be full."""
        taken = self.pool.take(num_blocks)
        ids = tuple(block.block_id for block in taken)
        evicted = [block for block in taken if block.hash is not None]
        if self.cache is not None:
            for block in evicted:
                self.cache.evict(block)
        lost = [block.block_id for block in evicted]
        self._recorder.blocks(Code.KV_EVICT, lost, None, other=seq.request_id)
        self._recorder.blocks(Code.KV_ALLOC, ids, seq.request_id, idx=len(seq.block_table))
        seq.block_table += taken
        self.enter_full_blocks(seq, seq.num_computed_tokens + num_new_tokens)
        return ids

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self._block_size)

    def _need(self, seq: Sequence, num_tokens: int, num_held: int) -> int:
        return max(0, self._blocks_for(min(num_tokens, self._max_model_len)) - num_held)

    @staticmethod
    def _shortage(code: Code, need: int, free: int, keep: int) -> Shortage:
        """Blame the watermark when it alone made the difference."""
        return Shortage(code if need > free else Code.STOP_WATERMARK, need, free, keep)
