from engine.model.launches import Launches
from tests.engine.recorded import MemorySink
from tracing.record import Kind, Level, Recorder
from tracing.spool import parse_blocks


def records(sink, kind):
    return [
        tuple(fields)
        for block in parse_blocks(sink.data, 0)
        for number, _, fields, _ in block.records()
        if number == kind
    ]


def test_n_launches_have_n_plus_one_times():
    ticks = iter(range(100, 1000, 10))
    sink = MemorySink()
    recorder = Recorder(sink, clock=lambda: next(ticks))
    for _ in range(2):
        launches = Launches(recorder)
        launches.mark("embed", -1)
        launches.mark("norm", 0)
        launches.write(num_tokens=7)
    recorder.flush()
    embed, norm = recorder.intern("kernel", "embed"), recorder.intern("kernel", "norm")
    assert records(sink, Kind.TEMPLATE) == [(0, embed, -1, norm, 0)]
    # One tick went to the clock anchor at the start.
    assert records(sink, Kind.KERNELS) == [
        (0, 7, 0, 110, 120, 130),
        (0, 7, 0, 140, 150, 160),
    ]


def test_below_level_4_the_clock_is_read_once():
    reads = []
    sink = MemorySink()
    recorder = Recorder(sink, level=Level.BLOCKS, clock=lambda: len(reads) or reads.append(1) or 1)
    reads.clear()
    launches = Launches(recorder)
    for layer in range(30):
        launches.mark("norm", layer)
    launches.write(num_tokens=7)
    recorder.flush()
    assert len(reads) == 1
    assert records(sink, Kind.KERNELS) == []
