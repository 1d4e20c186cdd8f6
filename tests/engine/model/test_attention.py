"""Grouping of rows, and paged attention against attention written out for one sequence at a time."""

import random

import pytest
import torch

from engine.model.attention import (
    LONE_QUERIES,
    TILE_QUERIES,
    Span,
    allocate_kv,
    group_spans,
    paged_attention,
    sort_by_size,
    write_kv,
)

CPU = torch.device("cpu")
HEADS, KV_HEADS, HEAD_DIM = 6, 2, 8


def span(first, computed, scheduled, block_size=4):
    num_blocks = -(-(computed + scheduled) // block_size)
    return Span(first, computed, scheduled, range(1, num_blocks + 1))


def test_decodes_share_a_group_with_those_of_similar_context_only():
    short, similar, longer = span(0, 10, 1), span(1, 200, 1), span(2, 300, 1)
    prefill = span(3, 0, 12)
    assert sort_by_size([short, similar, longer, prefill], 4) == [
        [short, similar],
        [longer],
        [prefill],
    ]


def test_a_long_chunk_stands_alone_in_tiles_that_see_no_more_than_they_need():
    chunk = span(5, 100, 2 * TILE_QUERIES + 10)
    tiles = [group for [group] in sort_by_size([chunk, span(0, 3, 1)], 4)[1:]]
    assert [tile.num_scheduled_tokens for tile in tiles] == [TILE_QUERIES, TILE_QUERIES, 10]
    assert [tile.first_token for tile in tiles] == [5, 5 + TILE_QUERIES, 5 + 2 * TILE_QUERIES]
    assert [tile.num_computed_tokens for tile in tiles] == [100, 356, 612]
    assert [len(tile.block_ids) for tile in tiles] == [89, 153, 156]
    assert (
        len(sort_by_size([span(0, 0, LONE_QUERIES), span(LONE_QUERIES, 0, LONE_QUERIES)], 4)) == 2
    )


def plain_attention(query, keys, values):
    """One query [H, D] over the keys it may see [S, K, D]."""
    out = []
    for head in range(HEADS):
        kv_head = head // (HEADS // KV_HEADS)
        weights = (keys[:, kv_head] @ query[head] / HEAD_DIM**0.5).softmax(0)
        out.append(weights @ values[:, kv_head])
    return torch.cat(out)


@pytest.mark.parametrize("block_size", [1, 3, 16])
@pytest.mark.parametrize(
    "lengths",
    [
        [(7, 1)],
        [(0, 1), (255, 1), (256, 1), (31, 1)],
        [(0, 5), (9, 20), (40, 3), (2, 1)],
        [(5, TILE_QUERIES + 3), (0, 2)],
    ],
    ids=["one", "decodes", "mixed", "tiled"],
)
def test_paged_attention_equals_attention_without_pages(lengths, block_size):
    generator = torch.Generator().manual_seed(block_size)
    num_blocks = sum(-(-(c + n) // block_size) for c, n in lengths) + 1
    free = list(range(1, num_blocks))
    random.Random(0).shuffle(free)
    cache = allocate_kv(1, (num_blocks, block_size, KV_HEADS, HEAD_DIM), torch.float32, CPU)[0]
    spans, contexts, queries, first = [], [], [], 0
    for computed, scheduled in lengths:
        size = computed + scheduled
        table = [free.pop() for _ in range(-(-size // block_size))]
        slots = [table[p // block_size] * block_size + p % block_size for p in range(size)]
        keys, values = torch.randn(2, size, KV_HEADS, HEAD_DIM, generator=generator)
        write_kv(cache, keys, values, torch.tensor(slots))
        contexts.append((keys, values))
        spans.append(Span(first, computed, scheduled, table))
        queries.append(torch.randn(scheduled, HEADS, HEAD_DIM, generator=generator))
        first += scheduled
    groups = group_spans(
        spans,
        block_size=block_size,
        queries_per_kv=HEADS // KV_HEADS,
        dtype=torch.float32,
        device=CPU,
    )
    found = paged_attention(torch.cat(queries), cache, groups)
    wanted = torch.stack(
        [
            plain_attention(
                query[i],
                keys[: s.num_computed_tokens + i + 1],
                values[: s.num_computed_tokens + i + 1],
            )
            for s, query, (keys, values) in zip(spans, queries, contexts, strict=True)
            for i in range(s.num_scheduled_tokens)
        ]
    )
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
