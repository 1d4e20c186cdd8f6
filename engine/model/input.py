"""A batch as flat tensors: the rows of all sequences one after the other, prefill and decode alike.

    rows        A: prefill 3 of 5      B: decode      C: prefill 2 of 2
    token_ids   a0  a1  a2             b7             c0  c1
    positions    0   1   2              7              0   1
    wanted_rows                         *                  *      (A does not reach its end: no sample)

A forward pass needs no more than this; it never sees a sequence. All loops over rows are here, none is there.
Invariant: the slot of a token is block_table[position // block_size] * block_size + position % block_size.
Source: vLLM 0.33 `v1/worker/gpu_model_runner.py` (_prepare_inputs).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.batch import Batch
from engine.model.attention import AttentionGroup, Span, group_spans
from engine.model.config import ModelConfig


@dataclass(frozen=True, slots=True)
class ModelInput:
    """What one forward pass computes. T tokens over all rows, B of which are sampled from."""

    token_ids: Tensor
    """[T]"""
    positions: Tensor
    """[T] place in its own sequence."""
    slot_mapping: Tensor
    """[T] where its key and value go."""
    groups: tuple[AttentionGroup, ...]
    wanted_rows: Tensor
    """[B] last token of each row that samples, in the order of the batch."""


def build_input(
    batch: Batch, config: ModelConfig, block_size: int, dtype: torch.dtype, device: torch.device
) -> ModelInput:
    """Lay out a batch. `dtype` is the model's."""
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    wanted_rows: list[int] = []
    spans: list[Span] = []
    for row in batch.rows:
        assert not row.draft_token_ids, "this runner does not verify drafts"
        start, end = row.num_computed_tokens, row.num_computed_tokens + row.num_scheduled_tokens
        assert start < end <= row.num_tokens
        table = row.seq.block_table[: -(-end // block_size)]
        block_ids = [block.block_id for block in table]
        assert len(block_ids) * block_size >= end, (
            "the scheduler gives blocks before it gives tokens"
        )
        spans.append(Span(len(token_ids), start, end - start, block_ids))
        token_ids += row.seq.token_ids[start:end]
        positions += range(start, end)
        slots += [
            block_ids[p // block_size] * block_size + p % block_size for p in range(start, end)
        ]
        if row.samples:
            wanted_rows.append(len(token_ids) - 1)
    return ModelInput(
        token_ids=torch.tensor(token_ids, device=device),
        positions=torch.tensor(positions, device=device),
        slot_mapping=torch.tensor(slots, device=device),
        groups=group_spans(
            spans,
            block_size=block_size,
            queries_per_kv=config.num_heads // config.num_kv_heads,
            dtype=dtype,
            device=device,
        ),
        wanted_rows=torch.tensor(wanted_rows, dtype=torch.int64, device=device),
    )
