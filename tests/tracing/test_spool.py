import os
import random
from pathlib import Path

import pytest

from tests.tracing.conftest import RunFolder
from tests.tracing.sim import Sim
from tracing.layout import FIELDS
from tracing.record import NULL, Code, Kind, Level, Recorder
from tracing.spool import (
    SEGMENT_HEADER,
    Block,
    Damage,
    SegmentReader,
    SpoolWriter,
    parse_blocks,
    segment_path,
)


def blocks_of(path: Path) -> list[Block]:
    reader = SegmentReader(path)
    items = list(reader.poll())
    reader.close()
    assert all(isinstance(item, Block) for item in items)
    return [item for item in items if isinstance(item, Block)]


def test_what_goes_in_comes_out_in_order(folder: RunFolder) -> None:
    recorder = folder.recorder()
    recorder.begin_step(3, 100)
    recorder.decision(Code.CUT_BUDGET, 7, 10, 4, 4, other=8)
    recorder.blocks(Code.KV_ALLOC, [5, 6, 9], 7, idx=0)
    recorder.intern("text", "héllo · 你好")
    recorder.tokens(200, [(7, 0, 42)])
    folder.close_writers()
    records = [r for b in blocks_of(segment_path(folder.path, 2, 0)) for r in b.records()]
    kinds = [Kind(kind).name for kind, *_ in records]
    assert kinds == ["HELLO", "CLOCK", "CTX", "DECISION", "BLOCKS", "DICT", "TOKENS", "BYE"]
    by_kind = {kind: fields for kind, _, fields, _ in records}
    named = dict(zip(FIELDS[Kind.DECISION], by_kind[Kind.DECISION], strict=True))
    assert (named["code"], named["request_id"], named["other_id"]) == (Code.CUT_BUDGET, 7, 8)
    assert [named[f"a{i}"] for i in range(4)] == [10, 4, 4, NULL]
    assert by_kind[Kind.BLOCKS][1:] == [Code.KV_ALLOC, 7, NULL, 0, 5, 6, 9]
    assert next(text for kind, *_, text in records if kind == Kind.DICT) == "héllo · 你好".encode()
    # Three blocks take three sequence numbers, everything else one.
    assert [seq for _, seq, _, _ in records] == [0, 1, 2, 3, 4, 7, 8, 9]


def test_unknown_kinds_are_skipped_by_their_length(folder: RunFolder) -> None:
    recorder = folder.recorder()
    recorder._put(200, (1, 2, 3))  # type: ignore[arg-type]  # a kind of a later version
    recorder.begin_step(1, 1)
    folder.close_writers()
    records = [r for b in blocks_of(segment_path(folder.path, 2, 0)) for r in b.records()]
    assert [(kind, seq) for kind, seq, _, _ in records][2:] == [(Kind.CTX, 3), (Kind.BYE, 4)]


def three_blocks(folder: RunFolder) -> bytes:
    sim = Sim(folder.recorder())
    for _ in range(3):
        sim.run_step()
    folder.close_writers(goodbye=False)
    return segment_path(folder.path, 2, 0).read_bytes()


def test_every_truncation_gives_exactly_the_whole_blocks_before_it(folder: RunFolder) -> None:
    data = three_blocks(folder)[SEGMENT_HEADER.size :]
    ends = [item.end for item in parse_blocks(data, 0)]
    assert len(ends) == 3
    for length in range(len(data)):
        items = list(parse_blocks(data[:length], 0))
        assert all(isinstance(item, Block) for item in items)
        assert [item.end for item in items] == [end for end in ends if end <= length]


def test_a_flipped_bit_costs_its_block_and_no_other(folder: RunFolder) -> None:
    data = three_blocks(folder)[SEGMENT_HEADER.size :]
    first, second, third = parse_blocks(data, 0)
    rng = random.Random(1)
    header = range(second.offset * 8, second.offset * 8 + 32 * 8)
    for bit in [*header, *(rng.randrange(second.offset * 8, second.end * 8) for _ in range(300))]:
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        items = list(parse_blocks(bytes(damaged), 0))
        assert [(type(item), item.offset, item.end) for item in items] == [
            (Block, first.offset, first.end),
            (Damage, second.offset, third.offset),
            (Block, third.offset, third.end),
        ]


def test_a_reader_waits_for_the_rest_of_a_block(folder: RunFolder, tmp_path: Path) -> None:
    data = three_blocks(folder)
    path = tmp_path / "9-0.spool"
    path.write_bytes(data[:-10])
    reader = SegmentReader(path)
    assert len(list(reader.poll())) == 2
    assert reader.pending > 0
    assert not reader.writer_lives()
    with path.open("ab") as file:
        file.write(data[-10:])
    assert len(list(reader.poll())) == 1
    assert reader.pending == 0
    reader.close()


def test_blocks_larger_than_the_window_are_read(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracing.spool._READ_BYTES", 256)
    sim = Sim(folder.recorder())
    for _ in range(5):
        sim.run_step()
    folder.close_writers()
    assert len(blocks_of(segment_path(folder.path, 2, 0))) == 6


def test_the_lock_tells_whether_the_writer_lives(folder: RunFolder) -> None:
    folder.recorder("api")
    reader = SegmentReader(segment_path(folder.path, 1, 0))
    assert reader.writer_lives()
    folder.close_writers(goodbye=False)
    assert not reader.writer_lives()
    reader.close()


def test_a_full_segment_is_followed_by_one_that_can_be_read_alone(folder: RunFolder) -> None:
    sim = Sim(folder.recorder(max_segment_bytes=4_000), seed=4)
    for _ in range(12):
        sim.run_step()
    folder.close_writers()
    assert segment_path(folder.path, 2, 2).exists()
    first, *rest = blocks_of(segment_path(folder.path, 2, 1))
    assert first.repeated
    assert not any(block.repeated for block in rest)
    kinds = {kind for kind, *_ in first.records()}
    assert {Kind.HELLO, Kind.DICT, Kind.TEMPLATE, Kind.RUN} <= kinds
    assert first.end_seq == rest[0].first_seq


def test_process_ids_are_claimed_by_role_then_in_order(folder: RunFolder) -> None:
    roles = ["core", "api", "core", "worker", "api"]
    assert [folder.recorder(role).proc_id for role in roles] == [2, 1, 3, 4, 5]
    names = sorted(name for name in os.listdir(folder.path) if name.endswith(".spool"))
    assert names == [f"{i}-0.spool" for i in range(1, 6)]


def test_a_full_disk_drops_the_block_and_says_so(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = SpoolWriter(folder.path, folder.info.run_id, "core")
    recorder = Recorder(sink, proc_id=sink.proc_id, engine_id=0, level=Level.STEPS)
    recorder.flush()
    real_write, is_full = os.write, True

    def write(fd: int, data: bytes) -> int:
        if not is_full:
            return real_write(fd, data)
        return real_write(fd, data[: len(data) // 2])  # half of it fits

    monkeypatch.setattr(os, "write", write)
    recorder.begin_step(0, 1)
    recorder.flush()
    is_full = False
    recorder.begin_step(1, 2)
    recorder.flush()
    monkeypatch.undo()
    sink.close()
    blocks = blocks_of(segment_path(folder.path, 2, 0))
    assert [block.dropped for block in blocks] == [0, 1]
    assert blocks[1].first_seq == blocks[0].end_seq + 1


def test_a_disk_that_fails_raises_nothing(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = folder.recorder()

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", fail)
    monkeypatch.setattr(os, "open", fail)
    for step in range(3):
        recorder.begin_step(step, 1)
        recorder.flush()
    monkeypatch.undo()
    recorder.begin_step(3, 1)
    recorder.flush()
    folder.close_writers()
    # Whatever was there is left alone: it goes on in a fresh segment.
    (definitions, block, goodbye) = blocks_of(segment_path(folder.path, 2, 1))
    assert definitions.repeated
    assert block.dropped == 5
    assert goodbye.dropped == 0
