"""The trace against the engine itself: what the tables say of a step is what the real pool and tree were."""

import random
from collections.abc import Callable

import pytest

from engine.config_sglang import SglangConfig
from engine.core import EngineCore
from engine.kv.paged import PagedKV
from engine.kv.radix import RadixKV
from engine.kv.radix_tree import Node
from tests.engine.toys import request, toy_core
from tests.tracing.conftest import RunFolder
from tests.tracing.test_kv_at import pool_of
from tracing.reader import state_at
from tracing.record import Code

Told = dict[int, tuple[str, int | None, dict[int, int]]]
"""Block -> (state, place in the free queue, {request: place in its table})."""


def pool_now(core: EngineCore) -> Told:
    kv = core.scheduler.kv
    assert isinstance(kv, PagedKV | RadixKV)
    place = {block.block_id: i + 1 for i, block in enumerate(kv.pool.free_queue)}
    holders: dict[int, dict[int, int]] = {}
    for seq in core.scheduler.running:
        for i, block in enumerate(seq.block_table):
            holders.setdefault(block.block_id, {})[seq.request_id] = i
    if isinstance(kv, PagedKV):
        cached = {block.block_id for block in kv.pool.blocks if block.hash is not None}
    else:
        cached = {block.block_id for node in nodes_of(kv) for block in node.blocks}
    told: Told = {}
    for block in kv.pool.blocks[1:]:
        i, held = block.block_id, holders.get(block.block_id, {})
        told[i] = ("used" if held else "cached" if i in cached else "free", place.get(i), held)
    return told


def nodes_of(kv: RadixKV) -> list[Node]:
    found, left = list[Node](), list(kv.cache.root.children.values())
    while left:
        node = left.pop()
        found.append(node)
        left += node.children.values()
    return found


def tree_now(kv: RadixKV) -> dict[int, tuple[int, ...]]:
    return {
        node.node_id: (
            *(node.parent.node_id if node.parent else 0, len(node.tokens), node.depth),
            *(node.locks, node.hits, node.priority, node.access),
        )
        for node in nodes_of(kv)
    }


def feed(core: EngineCore, rng: random.Random, request_id: int) -> None:
    family = [rng.randrange(3)] * rng.randrange(4, 14)
    prompt = family + [rng.randrange(50) for _ in range(rng.randrange(1, 20))]
    core.add(request(request_id, prompt, rng.randrange(1, 24)))


def drive(core: EngineCore, seed: int, num_steps: int, observe: Callable[[int], None]) -> None:
    """Random traffic with aborts; `observe` is called after every step that ran."""
    rng, next_id = random.Random(seed), 1
    for _ in range(num_steps):
        for _ in range(rng.choice([0, 0, 1, 2])):
            feed(core, rng, next_id)
            next_id += 1
        if core.sequences and rng.random() < 0.1:
            core.abort(rng.choice(list(core.sequences)), Code.ABORT_CALL)
        before = core.scheduler.num_steps
        core.step()
        if core.scheduler.num_steps > before:
            observe(before)


def describe(folder: RunFolder, core: EngineCore, cache_kind: str) -> None:
    config = core.scheduler.config
    core.recorder.describe_run(
        policy=config.policy,
        cache_kind=cache_kind,
        block_size=config.block_size,
        num_blocks=config.num_blocks,
        model="toy",
        config={},
    )


@pytest.mark.parametrize("seed", range(3))
def test_the_hash_cache_is_told_as_it_is(folder: RunFolder, seed: int) -> None:
    recorder = folder.recorder()
    core = toy_core(recorder, num_blocks=20)
    describe(folder, core, "hash")
    told: dict[int, Told] = {}
    drive(core, seed, 80, lambda step: told.update({step: pool_now(core)}))
    with folder.finished_store() as store:
        codes = {code for (code,) in store.sql("SELECT DISTINCT code FROM decision").rows}
        assert Code.PREEMPT_LAST in codes, "memory was never short"
        for step in list(told)[::2]:
            found = {i: (b[0], b[3], b[4]) for i, b in pool_of(store, step).items()}
            assert found == told[step], step
        (use,) = store.query("budget_use").dicts()
        scheduled = store.sql("SELECT sum(num_scheduled_tokens) FROM step_request").rows[0][0]
        assert use["used_tokens"] == scheduled
        tokens = store.sql("SELECT request_id, k FROM token ORDER BY 1, 2").rows
        sampled = store.sql("SELECT sum(num_sampled_tokens) FROM step_request").rows[0][0]
        assert len(set(tokens)) == len(tokens) == sampled


@pytest.mark.parametrize("block_size", [1, 4])
@pytest.mark.parametrize("seed", range(2))
def test_the_radix_tree_is_told_as_it_is(folder: RunFolder, seed: int, block_size: int) -> None:
    recorder = folder.recorder()
    core = toy_core(
        recorder,
        policy="sglang",
        block_size=block_size,
        num_blocks=80 // block_size,
        sglang=SglangConfig(schedule_policy="lpm", schedule_conservativeness=0.1),
    )
    describe(folder, core, "radix")
    kv = core.scheduler.kv
    assert isinstance(kv, RadixKV)
    trees: dict[int, dict[int, tuple[int, ...]]] = {}
    told: dict[int, Told] = {}

    def observe(step: int) -> None:
        told[step], trees[step] = pool_now(core), tree_now(kv)

    drive(core, seed, 80, observe)
    with folder.finished_store() as store:
        codes = {code for (code,) in store.sql("SELECT DISTINCT code FROM cache_event").rows}
        assert {Code.NODE_SPLIT, Code.NODE_EVICT, Code.NODE_UNLOCK} <= codes
        names = ("parent_id", "num_tokens", "depth", "lock_count", "hits", "priority", "access")
        for step in list(told)[::2]:
            pool = pool_of(store, step)
            assert {i: (b[0], b[3], b[4]) for i, b in pool.items()} == told[step], step
            rows = state_at(store, "tree_at", engine=0, step=step).dicts()
            tree = {row["node_id"]: tuple(row[name] for name in names) for row in rows}
            assert tree == trees[step], step
            assert {b[2] for b in pool.values()} - {0} == set(tree), "blocks know their nodes"
        distinct = store.sql("SELECT count(*), count(DISTINCT span_id) FROM otel_spans").rows[0]
        assert distinct[0] == distinct[1]
