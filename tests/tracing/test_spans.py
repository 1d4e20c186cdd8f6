import json
import time

from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from tests.tracing.conftest import RunFolder
from tests.tracing.sim import Sim
from tracing.record import Level
from tracing.spans import make_provider


def test_spans_of_the_sdk_nest_and_keep_what_they_carry(folder: RunFolder) -> None:
    tracer = make_provider(folder.recorder("api")).get_tracer("cutaway.server")
    with tracer.start_as_current_span("POST /v1/chat/completions", kind=SpanKind.SERVER) as server:
        attributes = {"cutaway.request": 77, "gen_ai.request.model": "toy", "stop": ("a", "b")}
        link = Link(server.get_span_context(), {"why": "test"})
        with tracer.start_as_current_span("chat toy", attributes=attributes, links=[link]) as chat:
            chat.add_event("first token", {"k": 0}, timestamp=5)
            chat.set_status(Status(StatusCode.ERROR, "it broke"))
    with folder.finished_store() as store:
        inner, outer = store.sql("FROM span ORDER BY seq").dicts()
    assert (outer["name"], outer["kind"], outer["parent_id"]) == (
        "POST /v1/chat/completions",
        2,
        None,
    )
    assert (inner["name"], inner["kind"], inner["status"]) == ("chat toy", 1, 2)
    context = chat.get_span_context()
    assert inner["trace_hi"] << 64 | inner["trace_lo"] == context.trace_id
    assert (inner["span_id"], inner["parent_id"]) == (context.span_id, outer["span_id"])
    assert outer["start_ns"] <= inner["start_ns"] <= inner["end_ns"] <= outer["end_ns"]
    assert inner["request_id"] == 77
    body = json.loads(inner["body"])
    assert body["attributes"] == {**attributes, "stop": ["a", "b"]}
    assert body["events"] == [{"name": "first token", "ts_ns": 5, "attributes": {"k": 0}}]
    assert body["links"][0]["span_id"] == outer["span_id"]
    assert body["links"][0]["attributes"] == {"why": "test"}
    assert (body["scope"], body["status_text"]) == ("cutaway.server", "it broke")
    assert body["resource"]["service.name"] == "cutaway"


def test_spans_and_steps_lie_on_one_time_axis(folder: RunFolder) -> None:
    core = folder.recorder()
    tracer = make_provider(folder.recorder("api")).get_tracer("t")
    sim = Sim(core, now=time.perf_counter_ns())
    offset = folder.info.epoch_offset_ns
    first = sim.now
    for _ in range(3):
        sim.run_step()
    span = tracer.start_span("engine", start_time=first + offset)
    span.end(sim.now + offset)
    with folder.finished_store() as store:
        rows = store.sql(
            "SELECT min(start_ns), max(end_ns) FROM otel_spans WHERE source = 'step' UNION ALL "
            "SELECT start_ns, end_ns FROM otel_spans WHERE source = 'span'"
        ).rows
    (step_start, step_end), (span_start, span_end) = rows
    assert span_start <= step_start < step_end <= span_end
    assert step_end - span_start <= sim.now - first


def test_an_incoming_trace_goes_on_even_if_it_is_not_sampled_elsewhere(folder: RunFolder) -> None:
    tracer = make_provider(folder.recorder("api")).get_tracer("t")
    remote = trace.SpanContext(2**127 + 2**64 + 5, 2**63 + 9, is_remote=True)
    context = trace.set_span_in_context(trace.NonRecordingSpan(remote))
    tracer.start_span("POST /", context=context).end()
    with folder.finished_store() as store:
        rows = store.sql("SELECT trace_hi, trace_lo, parent_id FROM span").rows
    assert rows == [(2**63 + 1, 5, 2**63 + 9)]


def test_a_span_that_never_ended_is_shown_as_such(folder: RunFolder) -> None:
    api = folder.recorder("api")
    make_provider(api).get_tracer("t").start_span("POST /")
    api.flush()
    folder.close_writers(goodbye=False)
    with folder.finished_store() as store:
        assert store.sql("SELECT name, end_ns FROM span").rows == [("POST /", None)]


def test_below_level_one_no_span_is_written(folder: RunFolder) -> None:
    provider = make_provider(folder.recorder("api", level=Level.METRICS))
    provider.get_tracer("t").start_span("POST /").end()
    with folder.finished_store() as store:
        assert store.sql("FROM span").rows == []
