"""Attention over a paged KV cache: fetch each sequence's blocks, then ordinary attention with a mask.

A step mixes sequences of one new token and of thousands, over contexts of any length. Rows of similar size
form a group, padded to the longest of the group; a group costs one fetch and one attention call in each
layer, and is laid out once a step for all layers. Query heads that share a KV head are folded into the query
axis, so keys and values are never repeated.

    group of 3 sequences, block_size 4        keys 0..3   4..7   8..11     seen . hidden x
      block_table [7 2 9]   position 10  ->    block 7    2      9         . . . . . . . . . . . x
      block_table [4 1 0]   position 5   ->    block 4    1      (null)    . . . . . . x x x x x x
      block_table [3 8 0]   position 4   ->    block 3    8      (null)    . . . . . x x x x x x x

Invariant: a query sees exactly the keys of its own sequence up to its own position. Cache memory starts as
zeros, because what the mask hides is still multiplied, by 0, and 0 * NaN is NaN.

Source: PagedAttention (Kwon et al. 2023, section 4.1), here as gather + `scaled_dot_product_attention`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

MIN_QUERIES, MIN_CONTEXT = 16, 256
"""Rows below these share a size class: a call would cost more than the padding it saves."""
TILE_QUERIES = 256
"""A longer chunk is cut into tiles, so that its early queries need not pass over its late keys."""
LONE_QUERIES = 128
"""From here on a row is a group of its own: padding it would cost more than a call."""

KVCache = tuple[tuple[Tensor, Tensor], ...]
"""Keys and values per layer, each [num_blocks, block_size, K, D]."""


@dataclass(frozen=True, slots=True)
class Span:
    """One row as attention sees it: new tokens at the end of a context."""

    first_token: int
    """Where its tokens begin among the step's T tokens."""
    num_computed_tokens: int
    num_scheduled_tokens: int
    block_ids: Sequence[int]
    """The blocks of its context, new tokens included."""

    @property
    def context_len(self) -> int:
        """Keys that its last token sees."""
        return self.num_computed_tokens + self.num_scheduled_tokens


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """G rows of similar size, padded to Q queries and N blocks. R query heads share a KV head."""

    query_index: Tensor
    """[G * Q] the token of each query; padding repeats the row's first token."""
    block_tables: Tensor
    """[G * N] padded with the null block 0."""
    mask: Tensor
    """[G, 1, R * Q, N * block_size] 0 or -inf, to be added; [G, 1, 1, ...] when Q is 1."""
    num_rows: int
    valid: Tensor | None
    """[n] which of the G * Q queries are real; None: all."""


def allocate_kv(
    num_layers: int, shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device
) -> KVCache:
    """A zeroed cache of shape [num_blocks, block_size, K, D] per layer."""
    return tuple(
        (
            torch.zeros(shape, dtype=dtype, device=device),
            torch.zeros(shape, dtype=dtype, device=device),
        )
        for _ in range(num_layers)
    )


def group_spans(
    spans: Sequence[Span],
    *,
    block_size: int,
    queries_per_kv: int,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[AttentionGroup, ...]:
    """Sort a step's rows into groups of similar size and lay them out."""
    return tuple(
        _lay_out(members, block_size, queries_per_kv, dtype, device)
        for members in sort_by_size(spans, block_size)
    )


def sort_by_size(spans: Sequence[Span], block_size: int) -> list[list[Span]]:
    """Rows whose queries and context have the same power of two above them; long chunks in tiles, alone."""
    classes: dict[tuple[int, int], list[Span]] = {}
    alone: list[list[Span]] = []
    for span in spans:
        if span.num_scheduled_tokens >= LONE_QUERIES:
            alone += [[tile] for tile in _tiles(span, block_size)]
            continue
        queries = span.num_scheduled_tokens
        query_class = 1 if queries == 1 else max(MIN_QUERIES, _power_of_two(queries))
        context_class = max(MIN_CONTEXT, _power_of_two(span.context_len))
        classes.setdefault((query_class, context_class), []).append(span)
    return [*classes.values(), *alone]


def write_kv(cache: tuple[Tensor, Tensor], keys: Tensor, values: Tensor, slots: Tensor) -> None:
    """Store new keys and values [T, K, D] in their slots [T] (block_id * block_size + offset)."""
    for store, new in zip(cache, (keys, values), strict=True):
        store.view(-1, *new.shape[1:]).index_copy_(0, slots, new)


def paged_attention(
    queries: Tensor, cache: tuple[Tensor, Tensor], groups: Sequence[AttentionGroup]
) -> Tensor:
    """Attend from each new token to its sequence's cached keys. Shapes: [T, H, D] -> [T, H * D]."""
    num_tokens, num_heads, head_dim = queries.shape
    out = queries.new_empty(num_tokens, num_heads * head_dim)
    for group in groups:
        attended, index = _attend(queries, cache, group), group.query_index
        if group.valid is not None:
            attended, index = attended[group.valid], index[group.valid]
        out.index_copy_(0, index, attended)
    return out


def _tiles(span: Span, block_size: int) -> Iterator[Span]:
    for offset in range(0, span.num_scheduled_tokens, TILE_QUERIES):
        num_queries = min(TILE_QUERIES, span.num_scheduled_tokens - offset)
        computed = span.num_computed_tokens + offset
        num_blocks = -(-(computed + num_queries) // block_size)
        yield Span(span.first_token + offset, computed, num_queries, span.block_ids[:num_blocks])


def _attend(queries: Tensor, cache: tuple[Tensor, Tensor], group: AttentionGroup) -> Tensor:
    """One group, padding included: [G * Q, H * D]."""
    rows, (num_heads, head_dim) = group.num_rows, queries.shape[1:]
    kv_heads = cache[0].shape[2]
    split = (rows, -1, kv_heads, num_heads // kv_heads, head_dim)  # [G, Q, K, R, D]
    folded = queries[group.query_index].view(split).permute(0, 2, 3, 1, 4)
    keys, values = (
        store.index_select(0, group.block_tables).view(rows, -1, kv_heads, head_dim).transpose(1, 2)
        for store in cache
    )
    out = F.scaled_dot_product_attention(
        folded.reshape(rows, kv_heads, -1, head_dim), keys, values, attn_mask=group.mask
    )
    unfolded = out.view(rows, kv_heads, num_heads // kv_heads, -1, head_dim)
    return unfolded.permute(0, 3, 1, 2, 4).reshape(-1, num_heads * head_dim)


def _lay_out(
    spans: Sequence[Span],
    block_size: int,
    queries_per_kv: int,
    dtype: torch.dtype,
    device: torch.device,
) -> AttentionGroup:
    num_queries = max(span.num_scheduled_tokens for span in spans)
    num_blocks = max(len(span.block_ids) for span in spans)
    tables = [[*span.block_ids, *[0] * (num_blocks - len(span.block_ids))] for span in spans]
    first = torch.tensor([span.first_token for span in spans]).unsqueeze(1)
    computed = torch.tensor([span.num_computed_tokens for span in spans]).unsqueeze(1)
    lengths = torch.tensor([span.num_scheduled_tokens for span in spans]).unsqueeze(1)
    steps = torch.arange(num_queries)
    real = steps < lengths  # [G, Q]
    offsets = torch.where(real, steps, 0)
    positions = (computed + offsets).to(device)  # [G, Q]
    unseen = torch.arange(num_blocks * block_size, device=device) > positions.unsqueeze(-1)
    mask = torch.zeros(unseen.shape, dtype=dtype, device=device).masked_fill_(unseen, -torch.inf)
    if num_queries > 1:
        mask = mask.repeat(1, queries_per_kv, 1)
    return AttentionGroup(
        query_index=(first + offsets).flatten().to(device),
        block_tables=torch.tensor(tables).flatten().to(device),
        mask=mask.unsqueeze(1),
        num_rows=len(spans),
        valid=None if real.all() else real.flatten().nonzero().squeeze(1).to(device),
    )


def _power_of_two(number: int) -> int:
    """The smallest power of two that is not below a number of at least 1."""
    return 1 << (number - 1).bit_length()
