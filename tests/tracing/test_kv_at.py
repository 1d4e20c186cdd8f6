import pytest

from tests.tracing.conftest import RunFolder
from tests.tracing.sim import BlockState, Sim
from tracing import fold_kv
from tracing.reader import state_at
from tracing.record import Code
from tracing.store import Store


def pool_of(store: Store, step: int) -> dict[int, BlockState]:
    pool: dict[int, BlockState] = {}
    for row in state_at(store, "kv_at", engine=0, step=step).dicts():
        held = dict(zip(row["holders"], row["idxs"], strict=True))
        pool[row["block_id"]] = (
            *(row["state"], row["ref_count"], row["node_id"], row["eviction_place"]),
            held,
        )
    return pool


@pytest.mark.parametrize("seed", range(4))
def test_the_pool_at_every_step_is_what_it_was(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(fold_kv, "KEYFRAME_STEPS", 16)
    recorder = folder.recorder()
    sim = Sim(recorder, seed=seed)
    truth, copies = [], []
    for _ in range(50):
        sim.run_step()
        truth.append(sim.pool.truth(recorder))
        copies.append(sim.pool.copies(recorder))
    assert any(entry[1] > 1 for pool in truth for entry in pool.values()), "nothing was ever shared"
    with folder.finished_store() as store:
        keyframes = [row[0] for row in store.sql("SELECT DISTINCT seq FROM kv_snapshot").rows]
        assert len(keyframes) >= 4
        for step, expected in enumerate(truth):
            assert pool_of(store, step) == expected
            tree = state_at(store, "tree_at", engine=0, step=step).dicts()
            assert {row["node_id"]: row["num_copies"] for row in tree} == copies[step]
            alive = {row["node_id"] for row in tree} | {0}
            assert all(row["parent_id"] in alive or row["depth"] for row in tree)


def test_it_makes_no_difference_which_keyframe_one_starts_from(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold_kv, "KEYFRAME_STEPS", 7)
    recorder = folder.recorder()
    sim = Sim(recorder, seed=9)
    for _ in range(30):
        sim.run_step()
    with folder.finished_store() as store:
        last = store.query("keyframe", engine=0, n=29).rows[0][2]
        starts = [-1, *(r[0] for r in store.sql("SELECT DISTINCT seq FROM kv_snapshot").rows)]
        earlier = [seq for seq in starts if seq <= last]
        assert len(earlier) > 3
        answers = [store.query("kv_at", engine=0, k_seq=k, n_seq=last).rows for k in earlier]
        assert all(answer == answers[0] for answer in answers)
        trees = [store.query("tree_at", engine=0, k_seq=k, n_seq=last).rows for k in earlier]
        assert all(tree == trees[0] for tree in trees)


def test_counts_of_a_step_are_those_of_its_pool(folder: RunFolder) -> None:
    sim = Sim(folder.recorder(), seed=3)
    for _ in range(25):
        sim.run_step()
    with folder.finished_store() as store:
        for row in store.sql("FROM step ORDER BY step").dicts():
            states = [block[0] for block in pool_of(store, row["step"]).values()]
            assert states.count("used") == row["used_blocks"]
            assert states.count("cached") == row["cached_free_blocks"]
            assert states.count("free") == row["free_blocks"]


def test_blocks_freed_outside_a_step_count_to_the_next_one(folder: RunFolder) -> None:
    recorder = folder.recorder()
    sim = Sim(recorder, seed=1)
    for _ in range(6):
        sim.run_step()
    before = sim.pool.truth(recorder)
    victim = next(iter(sim.tables))
    sim.let_go(victim)  # an abort, between steps 5 and 6
    after = sim.pool.truth(recorder)
    with folder.finished_store() as store:
        assert pool_of(store, 5) == before
        assert pool_of(store, 6) == after
        steps = store.sql(
            f"SELECT DISTINCT step FROM kv_event WHERE code IN (603, 604, 605) "
            f"AND request_id = {victim}"
        )
        assert steps.rows == [(6,)]


def test_neighbouring_blocks_are_one_row_in_either_direction(folder: RunFolder) -> None:
    recorder = folder.recorder()
    recorder.begin_step(0, 0)
    recorder.blocks(Code.KV_ALLOC, [1, 2, 3, 9, 10], 5, idx=0)
    recorder.blocks(Code.KV_FREE_FRONT, [10, 9, 3, 2, 1], 5)
    with folder.finished_store() as store:
        runs = store.sql(
            "SELECT block_id, num_blocks, idx, free_key FROM kv_event ORDER BY seq"
        ).rows
        assert runs == [(1, 3, 0, None), (9, 2, 3, None), (10, -2, None, -4), (3, -3, None, -2)]
        each = store.sql(
            "SELECT seq, block_id, free_key FROM kv_block WHERE code = 605 ORDER BY seq"
        )
        assert [row[1:] for row in each.rows] == [(10, -4), (9, -3), (3, -2), (2, -1), (1, 0)]
        assert len({row[0] for row in each.rows}) == 5


def test_an_eviction_says_for_whom_and_how_long_the_block_was_idle(folder: RunFolder) -> None:
    recorder = folder.recorder()
    recorder.begin_step(0, 0)
    recorder.blocks(Code.KV_ALLOC, [1], 5, idx=0)
    recorder.cached(Code.KV_CACHED, 1, 5, 0, b"a", None)
    recorder.blocks(Code.KV_FREE_BACK, [1], 5)
    recorder.begin_step(12, 0)
    recorder.blocks(Code.KV_EVICT, [1], None, other=6)
    recorder.blocks(Code.KV_ALLOC, [1], 6, idx=0)
    with folder.finished_store() as store:
        rows = store.sql(
            "SELECT other_id, idle_steps, state, node_id FROM kv_event WHERE code = 608"
        )
        assert rows.rows == [(6, 12, "free", 0)]
        (event,) = store.sql("FROM cache_event WHERE code = 608").dicts()
        assert (event["alive"], event["num_copies"], event["other_id"]) == (False, 0, 6)


def test_a_reset_drops_every_entry_it_names_and_moves_no_block(folder: RunFolder) -> None:
    recorder = folder.recorder()
    recorder.describe_run(num_blocks=4, block_size=4)
    recorder.begin_step(0, 0)
    recorder.blocks(Code.KV_RESERVED, [1, 2], 5, idx=0)
    recorder.cached(Code.KV_CACHED, 1, 5, 0, b"a", None)
    recorder.cached(Code.KV_CACHED_COPY, 2, 5, 0, b"a", None)
    recorder.blocks(Code.KV_FREE_BACK, [2, 1], 5)
    recorder.blocks(Code.KV_RESET, [1, 2], None)
    with folder.finished_store() as store:
        nothing = ("free", 0, 0)
        assert pool_of(store, 0) == {
            1: (*nothing, 3, {}),
            2: (*nothing, 2, {}),
            3: (*nothing, 1, {}),
        }
        assert state_at(store, "tree_at", engine=0, step=0).rows == []
        copies = store.sql(
            "SELECT num_copies, depth FROM cache_event WHERE code IN (606, 607)"
        ).rows
        assert copies == [(1, 0), (2, 0)]
