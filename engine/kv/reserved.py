"""Reserved KV: contiguous room for the longest a sequence may become, taken at admission.

The baseline that paging improves on: no growth can fail later, but what a sequence never uses nobody else
can use, and gaps between sequences are useless when each is too short for the next request. Both wastes are
visible in the trace.

Source: the systems that PagedAttention compares itself with (Kwon et al. 2023, section 3.1: reserved slots,
internal and external fragmentation).
"""

from collections.abc import Sequence as Seq

from engine.config import EngineConfig
from engine.kv.block_pool import Block
from engine.kv.paged import Shortage
from engine.sequence import Sequence
from tracing.record import Code, Recorder


class ReservedKV:
    """One contiguous run of blocks per sequence, first fit. Shares nothing, caches nothing."""

    num_cached_free = 0

    def __init__(self, config: EngineConfig, recorder: Recorder) -> None:
        assert config.num_blocks is not None
        assert config.max_model_len is not None
        self._blocks = [Block(i) for i in range(config.num_blocks)]
        self._block_size = config.block_size
        self._max_model_len = config.max_model_len
        self._recorder = recorder
        self._gaps: list[tuple[int, int]] = [(1, config.num_blocks)]
        """Free runs as [start, end), sorted, never touching."""

    @property
    def num_free(self) -> int:
        """Blocks outside every reservation."""
        return sum(end - start for start, end in self._gaps)

    @property
    def num_used(self) -> int:
        """Blocks inside a reservation, whether or not a token was ever written there."""
        return len(self._blocks) - 1 - self.num_free

    def track(self, seq: Sequence) -> None:
        """Nothing is hashed."""

    def reset_cache(self) -> int:
        """There is none."""
        return 0

    def lookup(self, seq: Sequence) -> list[Block]:
        """Nothing is ever shared."""
        return []

    def given_up(self, seq: Sequence, hit: Seq[Block]) -> int:
        """Nothing is cached, so nothing is given up."""
        return 0

    def admit(
        self, seq: Sequence, num_new_tokens: int, hit: Seq[Block], *, alone: bool
    ) -> tuple[int, ...] | Shortage:
        """Reserve room for the prompt and every token the request may still produce."""
        room = seq.request.params.max_tokens or self._max_model_len
        longest = min(seq.num_prompt_tokens + room, self._max_model_len)
        need = -(-longest // self._block_size)
        for i, (start, end) in enumerate(self._gaps):
            if end - start >= need:
                rest = [(start + need, end)] if end - start > need else []
                self._gaps[i : i + 1] = rest
                seq.block_table = self._blocks[start : start + need]
                for block in seq.block_table:
                    block.ref_count = 1
                seq.num_computed_tokens = 0
                ids = tuple(range(start, start + need))
                self._recorder.blocks(Code.KV_RESERVED, ids, seq.request_id, idx=0)
                return ids
        largest = max((end - start for start, end in self._gaps), default=0)
        return Shortage(Code.STOP_RESERVE, need, largest)

    def append(self, seq: Sequence, num_new_tokens: int) -> tuple[int, ...] | Shortage:
        """Growth never needs anything: the room is already held."""
        return ()

    def enter_full_blocks(self, seq: Sequence, num_tokens: int) -> None:
        """There is no cache to enter."""

    def free(self, seq: Sequence) -> None:
        """Give the whole run back and join it with its neighbours."""
        if not seq.block_table:
            return
        ids = [block.block_id for block in seq.block_table]
        for block in seq.block_table:
            assert block.ref_count == 1, f"{block} freed twice"
            block.ref_count = 0
        gaps = sorted([*self._gaps, (ids[0], ids[-1] + 1)])
        self._gaps = gaps[:1]
        for start, end in gaps[1:]:
            if start == self._gaps[-1][1]:
                self._gaps[-1] = (self._gaps[-1][0], end)
            else:
                self._gaps.append((start, end))
        self._recorder.blocks(Code.KV_FREE_FRONT, ids, seq.request_id)
        seq.block_table = []
