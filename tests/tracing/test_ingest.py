import os
from pathlib import Path
from typing import Any

import pytest

from tests.tracing.conftest import RunFolder
from tests.tracing.sim import Sim
from tracing import ingest as ingest_module
from tracing.ingest import Ingest
from tracing.record import NULL, Code, Kind, Level
from tracing.spool import SegmentReader, segment_path
from tracing.store import Store

Tables = dict[str, list[tuple[Any, ...]]]


def tables_of(store: Store) -> Tables:
    names = [row[0] for row in store.sql("SELECT table_name FROM duckdb_tables()").rows]
    return {name: store.sql(f"FROM {name}").rows for name in names}


def record_something(folder: RunFolder, *, num_steps: int = 40, goodbye: bool = True) -> None:
    core = Sim(folder.recorder(max_segment_bytes=12_000), seed=2)
    api = folder.recorder("api")
    for step in range(num_steps):
        core.run_step()
        api.event(Code.KNOB, 1, 2, 3)
        if step % 3 == 0:
            api.flush()
    folder.close_writers(goodbye=goodbye)


def test_a_recorder_that_dies_anywhere_changes_nothing(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest_module, "MAX_BATCH_ROWS", 50)  # many commits
    record_something(folder)
    with Store.writable(folder.path) as store:
        Ingest(folder.path, folder.info, store).finish()
        expected = tables_of(store)
    assert expected["step"]
    real_commit = Store.commit
    for deadly in (1, 2, 5, 9):
        (folder.path / "trace.duckdb").unlink()
        left = deadly

        def commit(self: Store, *args: Any, **kwargs: Any) -> None:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt  # the process ends here
            left -= 1
            real_commit(self, *args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(Store, "commit", commit)
            with Store.writable(folder.path) as store, pytest.raises(KeyboardInterrupt):
                Ingest(folder.path, folder.info, store).finish()
        with Store.writable(folder.path) as store:
            Ingest(folder.path, folder.info, store).finish()
            again = tables_of(store)
        for name in expected:
            assert sorted(map(repr, again[name])) == sorted(map(repr, expected[name])), name


def test_reading_while_it_is_written_gives_the_same(folder: RunFolder) -> None:
    sim = Sim(folder.recorder(max_segment_bytes=8_000), seed=6)
    with Store.writable(folder.path) as store:
        following = Ingest(folder.path, folder.info, store)
        for step in range(20):
            sim.run_step()
            following.poll()
            if step % 4 == 0:
                following.commit()
        assert following.writers_live()
        folder.close_writers()
        assert not following.writers_live()
        following.finish()
        live = tables_of(store)
    (folder.path / "trace.duckdb").unlink()
    with Store.writable(folder.path) as store:
        Ingest(folder.path, folder.info, store).finish()
        assert tables_of(store) == live


def test_sequence_numbers_leave_no_gap_and_spans_share_none(folder: RunFolder) -> None:
    record_something(folder)
    with folder.finished_store() as store:
        assert store.sql("SELECT sum(lost_records) FROM ingest").rows == [(0,)]
        total, distinct = store.sql(
            "SELECT count(*), count(DISTINCT span_id) FROM otel_spans"
        ).rows[0]
        assert total == distinct > 0


def test_a_torn_tail_is_counted_and_left_alone(folder: RunFolder) -> None:
    record_something(folder, num_steps=3, goodbye=False)
    path = segment_path(folder.path, 2, 0)
    whole = path.read_bytes()
    path.write_bytes(whole[:-24])
    with Store.writable(folder.path) as store:
        Ingest(folder.path, folder.info, store).finish()
        (event,) = store.sql("FROM event WHERE code = 906").dicts()
        torn = store.sql("SELECT torn_bytes, sealed FROM ingest WHERE proc_id = 2").rows
        assert torn == [(event["a1"], True)]
        assert event["a1"] > 0
        assert store.sql("SELECT max(step) FROM step").rows == [(1,)]
        assert store.sql("SELECT a0 FROM event WHERE code = 1002").rows == [(0,)]
    assert path.read_bytes() == whole[:-24]


def test_damage_in_the_middle_is_stepped_over_and_counted(folder: RunFolder) -> None:
    record_something(folder, num_steps=4)
    path = segment_path(folder.path, 2, 0)
    reader = SegmentReader(path)
    blocks = list(reader.poll())
    reader.close()
    data = bytearray(path.read_bytes())
    data[blocks[1].offset + 40] ^= 1
    path.write_bytes(data)
    with Store.writable(folder.path) as store:
        Ingest(folder.path, folder.info, store).finish()
        (event,) = store.sql("FROM event WHERE code = 907").dicts()
        lost = blocks[2].first_seq - blocks[1].first_seq  # type: ignore[union-attr]
        assert (event["a0"], event["a1"], event["a2"]) == (0, blocks[1].offset, lost)
        assert store.sql("SELECT lost_records FROM ingest WHERE proc_id = 2").rows == [(lost,)]
        assert store.sql("SELECT step FROM step ORDER BY 1").rows == [(0,), (2,), (3,)]


def test_records_that_the_disk_refused_are_counted(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = folder.recorder()
    recorder.flush()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda *_: 0)
        recorder.event(Code.KNOB, 1)
        recorder.event(Code.KNOB, 2)
        recorder.flush()
    recorder.event(Code.KNOB, 3)
    with folder.finished_store() as store:
        assert store.sql("SELECT a0, a1 FROM event WHERE code = 905").rows == [(2, 1)]
        assert store.sql("SELECT lost_records FROM ingest").rows == [(2,)]
        assert store.sql("SELECT a0 FROM event WHERE code = 1004").rows == [(3,)]


def test_a_killed_core_leaves_its_step_and_requests_ended_as_interrupted(folder: RunFolder) -> None:
    api, core = folder.recorder("api"), folder.recorder()
    request_id = (1 << 32) + 1
    api.request(
        (request_id, NULL, 1, 2, 3, NULL, api.clock(), 0, 9, 16, 0, 0, 0, 1_000_000, 0, NULL),
        external_id="mine",
        operation="chat",
    )
    sim = Sim(core)
    sim.tables[request_id], sim.chains[request_id] = [], []
    core.begin_step(0, sim.tick())
    sim.end_step(sim.now)
    core.begin_step(1, sim.tick())
    core.flush()
    api.flush()
    folder.close_writers(goodbye=False)
    with Store.writable(folder.path) as store:
        Ingest(folder.path, folder.info, store).finish()
        steps = store.sql(
            "SELECT step, end_ns IS NULL, collected_ns IS NULL FROM step ORDER BY step"
        )
        assert steps.rows == [(0, False, False), (1, True, True)]
        (end,) = store.sql("FROM request_end").dicts()
        assert (end["request_id"], end["code"], end["a0"]) == (request_id, Code.INTERRUPTED, 1)
        assert end["num_output_tokens"] == 1
        assert store.sql("SELECT status FROM otel_spans WHERE source = 'step'").rows == [(0,), (2,)]


def test_steps_in_flight_keep_their_rows_apart(folder: RunFolder) -> None:
    core = folder.recorder()
    first, second = Sim(core), 1
    core.begin_step(0, 10)
    core.decision(Code.STOP_BUDGET, None, 1, 1)
    core.begin_step(second, 20)
    core.decision(Code.STOP_MAX_SEQS, None, 2, 2)
    core.begin_step(0, 10)  # named again: its output is in hand
    first.tables = {7: []}
    first.end_step(10)
    core.decision(Code.SKIP_STALE, 7, 1)  # outside: the step scheduled next is 2
    core.begin_step(second, 20)
    first.end_step(20)
    with folder.finished_store() as store:
        rows = store.sql("SELECT step, code FROM decision ORDER BY seq").rows
        assert rows == [(0, Code.STOP_BUDGET), (1, Code.STOP_MAX_SEQS), (2, Code.SKIP_STALE)]
        assert store.sql("SELECT step, row FROM step_request ORDER BY step").rows == [
            (0, 0),
            (1, 0),
        ]


@pytest.mark.parametrize("level", list(Level)[1:])
def test_each_level_records_what_it_says_and_no_more(folder: RunFolder, level: Level) -> None:
    sim = Sim(folder.recorder(level=level), seed=2)
    for _ in range(20):
        sim.now += 100_000_000
        sim.run_step()
    with folder.finished_store() as store:
        filled = {name for name, rows in tables_of(store).items() if rows}
        has_steps = store.sql("SELECT count(step) FROM token").rows[0][0]
    expected = {"run", "proc", "clock", "reason", "ingest", "event"}
    expected |= {"second"} if level < Level.STEPS else set()
    expected |= {"token"} if level >= Level.REQUESTS else set()
    expected |= {"step", "step_request", "decision", "rank_step"} if level >= Level.STEPS else set()
    expected |= {"kv_event", "kv_snapshot", "cache_event"} if level >= Level.BLOCKS else set()
    expected |= {"kernel", "dict"} if level >= Level.KERNELS else set()
    assert filled - {"cache_snapshot"} == expected
    assert (has_steps > 0) == (level >= Level.STEPS)


def test_a_change_of_level_is_recorded(folder: RunFolder) -> None:
    recorder = folder.recorder(level=Level.BLOCKS)
    recorder.set_level(Level.REQUESTS)
    recorder.tokens(5, [(1, 0, 7)])
    with folder.finished_store() as store:
        assert store.sql("SELECT a0, a1 FROM event WHERE code = 1003").rows == [(3, 1)]
        assert store.sql("SELECT step FROM token").rows == [(None,)]


def test_the_gap_between_tokens_is_computed(folder: RunFolder) -> None:
    recorder = folder.recorder()
    recorder.begin_step(0, 0)
    recorder.tokens(1_000, [(1, 0, 7), (2, 0, 7)])
    recorder.tokens(1_500, [(1, 1, 7)])
    recorder.tokens(4_000, [(1, 2, 7), (1, 3, 7), (2, 1, 8)])
    with folder.finished_store() as store:
        gaps = store.sql("SELECT request_id, k, gap_ns FROM token ORDER BY request_id, k").rows
    assert gaps == [(1, 0, None), (1, 1, 500), (1, 2, 2500), (1, 3, 0), (2, 0, None), (2, 1, 3000)]


def test_a_wall_clock_that_was_set_is_noticed(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = folder.recorder()
    monkeypatch.setattr("time.time_ns", lambda: folder.info.created_ns + 3_600 * 10**9)
    recorder.clock_anchor()
    monkeypatch.undo()
    with folder.finished_store() as store:
        (event,) = store.sql("FROM event WHERE code = 908").dicts()
    assert abs(event["a0"] - 3_600 * 10**9) < 60 * 10**9


def test_every_kind_of_record_is_folded(folder: RunFolder) -> None:
    api = folder.recorder("api")
    api.phase(9, 3, 100, 200, -1, NULL)
    api.phase(9, 5, 200, 300, 4, 6)
    api.prompt(9, [1, 2, 3])
    api.prompt_units(9, 8, [(b"a", b"b"), (b"c", b"d")])
    api.request_end((9, 300, Code.END_LENGTH, 200, 2, 0, 0, 0, 210, 290, 215, NULL, 2))
    offset = folder.info.epoch_offset_ns
    with folder.finished_store() as store:
        phases = store.sql("FROM request_phase ORDER BY start_ns").rows
        assert phases == [
            (9, "queue", 100 + offset, 200 + offset, None, None),
            (9, "decode", 200 + offset, 300 + offset, 4, 6),
        ]
        assert store.sql("FROM prompt").rows == [(9, [1, 2, 3])]
        units = [
            (9, i, api.mask(h), api.mask(c))
            for i, (h, c) in enumerate([(b"a", b"b"), (b"c", b"d")])
        ]
        assert store.sql("FROM prompt_block ORDER BY i").rows == units
        (end,) = store.sql("FROM request_end").dicts()
    assert end["first_token_ns"] - end["last_token_ns"] == -80
    assert (end["detokenise_ns"], end["a0"], end["http_status"]) == (None, 2, 200)
    assert Kind.PHASE == 22  # numbers are part of the spool format
