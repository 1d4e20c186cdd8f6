"""Batches made by hand: sequences with shuffled block tables, without a scheduler."""

import random
from typing import Any

from engine.batch import Batch, Row
from engine.kv.block_pool import Block
from engine.request import Request, SamplingParams
from engine.sequence import Sequence
from tests.conftest import VOCAB_SIZE
from tracing.record import Code


class BatchMaker:
    """Sequences with shuffled block tables, and batches of them, without a scheduler."""

    def __init__(self, block_size: int, num_blocks: int = 512, seed: int = 0) -> None:
        self.block_size = block_size
        self.num_blocks = num_blocks
        self.rng = random.Random(seed)
        self._free = list(range(1, num_blocks))
        self.rng.shuffle(self._free)
        self._next_id = 0

    def sequence(
        self, token_ids: list[int], params: SamplingParams | None = None, **request: Any
    ) -> Sequence:
        """A new sequence of these prompt tokens, nothing computed."""
        self._next_id += 1
        request.setdefault("request_id", self._next_id)
        params = params or SamplingParams(temperature=0.0)
        return Sequence(
            Request(prompt_token_ids=token_ids, params=params, arrival_ns=0, **request), now_ns=0
        )

    def random_tokens(self, length: int) -> list[int]:
        """Tokens of the tiny models' vocabulary, ends of text excluded."""
        return [self.rng.randrange(3, VOCAB_SIZE) for _ in range(length)]

    def row(self, seq: Sequence, num_tokens: int) -> Row:
        """Schedule so many tokens of a sequence, with the blocks that they need."""
        before, start = len(seq.block_table), seq.num_computed_tokens
        while len(seq.block_table) * self.block_size < start + num_tokens:
            seq.block_table.append(Block(self._free.pop()))
        seq.num_computed_tokens += num_tokens
        return Row(
            seq=seq,
            code=Code.RUN_DECODE if num_tokens == 1 else Code.RUN_CHUNK,
            num_computed_tokens=start,
            num_scheduled_tokens=num_tokens,
            num_tokens=seq.num_tokens,
            num_recomputed_tokens=0,
            new_block_ids=tuple(block.block_id for block in seq.block_table[before:]),
        )

    def batch(self, *rows: Row, step: int = 0) -> Batch:
        """The plan of one step."""
        return Batch(step=step, start_ns=0, rows=rows)
