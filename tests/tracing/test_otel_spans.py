import json

from tests.tracing.conftest import RunFolder
from tests.tracing.sim import Sim
from tests.tracing.test_store import REQUEST, busy_run


def test_there_is_one_span_for_everything_that_happened(folder: RunFolder) -> None:
    busy_run(folder)
    with folder.finished_store() as store:
        by_source = dict(store.sql("SELECT source, count(*) FROM otel_spans GROUP BY 1").rows)
        for table in ("step", "rank_step", "kernel"):
            assert by_source[table] == store.sql(f"SELECT count(*) FROM {table}").rows[0][0] > 0
        blocks = store.sql("SELECT sum(abs(num_blocks)) FROM kv_event").rows[0][0]
        assert by_source["kv_event"] == blocks > 0


def test_parents_exist_enclose_their_children_and_share_their_trace(folder: RunFolder) -> None:
    sim = Sim(folder.recorder(), seed=2)
    for _ in range(12):
        sim.run_step()
    with folder.finished_store() as store:
        orphans = store.sql(
            "SELECT c.name FROM otel_spans c ANTI JOIN otel_spans p ON p.span_id = c.parent_id "
            "WHERE c.parent_id IS NOT NULL"
        )
        assert orphans.rows == []
        roots = store.sql("SELECT DISTINCT source FROM otel_spans WHERE parent_id IS NULL").rows
        assert roots == [("step",)]
        outside = store.sql(
            "SELECT c.name, c.start_ns, c.end_ns, p.start_ns, p.end_ns FROM otel_spans c "
            "JOIN otel_spans p ON p.span_id = c.parent_id WHERE c.start_ns < p.start_ns "
            "OR c.end_ns > p.end_ns OR (c.trace_hi, c.trace_lo) <> (p.trace_hi, p.trace_lo)"
        )
        assert outside.rows == []
        kernels = store.sql(
            "SELECT DISTINCT name FROM otel_spans WHERE source = 'kernel' ORDER BY 1"
        )
        assert kernels.rows == [("kernel attention",), ("kernel embed",), ("kernel mlp",)]


def test_a_step_links_to_its_requests_and_tells_its_decisions(folder: RunFolder) -> None:
    api, core = folder.recorder("api"), folder.recorder()
    sim = Sim(core)
    busy = (REQUEST, -(2**63), -5, 6, 7, -(2**63), 0, 0, 1, 1, 0, 0, 0, 0, 0, 0)
    api.request(busy, external_id=None, operation="chat")
    sim.tables[REQUEST] = []
    start = sim.tick()
    core.begin_step(0, start)
    core.decision(404, REQUEST, 5, 1)  # type: ignore[arg-type]  # the number as it travels
    sim.end_step(start)
    with folder.finished_store() as store:
        (row,) = store.sql(
            "SELECT links, events, attributes FROM otel_spans WHERE source = 'step'"
        ).rows
    links, events, attributes = (json.loads(text) for text in row)
    assert links == [{"trace_hi": 2**64 - 5, "trace_lo": 6, "span_id": 7}]
    assert events[0]["cutaway.reason"] == "STOP_NO_BLOCKS"
    assert events[0]["cutaway.args"] == [5, 1, None, None]
    assert (attributes["cutaway.step"], attributes["cutaway.mode"]) == (0, "decode")
