"""A served run, recorded as in real life: what the trace says of it must hold together."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import tracing
from tests.engine.server.conftest import MODEL, Server
from tracing.reader import Run

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def run(start_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The trace of a server that had a chat, streams, several choices, refusals and a client that left."""
    folder = tmp_path_factory.mktemp("runs") / "served"
    recording = tracing.start(folder, record_tokens=True)
    server = start_server(recording)
    client = server.client()
    ask = client.completions.create
    long = "The lazy dog sleeps in the sun, and then jumps. " * 4

    def stream(i: int) -> None:
        list(ask(model=MODEL, prompt=long + str(i), max_tokens=20, stream=True))

    messages = [{"role": "user", "content": "What is the sun?"}]
    client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=5, extra_headers={"traceparent": TRACEPARENT}
    )
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(stream, range(6)))
    ask(model=MODEL, prompt="The", n=3, max_tokens=4, seed=1)
    ask(model=MODEL, prompt="The quick brown fox", stop="e", max_tokens=30)
    for prompt in ([5] * 16384, ""):
        with pytest.raises(Exception, match="prompt"):
            ask(model=MODEL, prompt=prompt)
    with ask(
        model=MODEL, prompt="x", stream=True, max_tokens=9000, extra_body={"ignore_eos": True}
    ) as leaving:
        next(iter(leaving))
    server.stop()
    recording.close()
    return tracing.open_run(folder)


def test_every_request_has_one_end(run: Run) -> None:
    rows = run.sql(
        "SELECT request_id, count(e.code) FROM request LEFT JOIN request_end e USING (request_id)"
        " GROUP BY 1 HAVING count(e.code) <> 1"
    ).rows
    assert rows == []
    codes = dict(run.sql("SELECT code, count(*) FROM request_end GROUP BY 1").rows)
    assert codes.keys() >= {804, 812, 821, 823}
    assert sum(codes.values()) == 1 + 6 + 3 + 1 + 2 + 1


def test_phases_tile_each_life(run: Run) -> None:
    rows = run.sql(
        "SELECT request_id, min(p.start_ns) - any_value(arrival_ns), max(p.end_ns) - any_value(e.end_ns),"
        " sum(p.end_ns - p.start_ns) - any_value(e.end_ns - arrival_ns) FROM request"
        " JOIN request_phase p USING (request_id) JOIN request_end e USING (request_id) GROUP BY 1"
    ).rows
    assert len(rows) == 14
    assert {tuple(row[1:]) for row in rows} == {(0, 0, 0)}


def test_tokens_that_were_sampled_are_those_that_were_delivered(run: Run) -> None:
    rows = run.sql(
        "SELECT e.code, e.num_output_tokens, (SELECT count(*) FROM token t WHERE t.request_id ="
        " e.request_id), first_token_ns, (SELECT min(ts_ns) FROM token t WHERE t.request_id ="
        " e.request_id) FROM request_end e"
    ).rows
    for code, delivered, sampled, first_told, first_sampled in rows:
        assert first_told == first_sampled
        if code not in (803, 812):  # after these the core may have sampled on
            assert delivered == sampled
        assert delivered <= sampled


def test_spans_hang_together_from_the_caller_down(run: Run) -> None:
    rows = run.sql("SELECT span_id, parent_id, name, kind, start_ns, end_ns FROM span").rows
    spans = {row[0]: row for row in rows}
    assert all(row[5] is not None for row in rows), "every span has ended"
    http = [row for row in rows if row[3] == 2]
    assert len(http) == 12, "one per HTTP request: n choices share one"
    assert [row[1] for row in http if row[1] is not None] == [int("b7ad6b7169203331", 16)]
    for span_id, parent_id, name, kind, start_ns, end_ns in rows:
        if parent_id is None:
            assert kind == 2 or name in ("start API", "start engine")
        elif kind != 2:
            parent = spans[parent_id]
            assert parent[4] <= start_ns <= end_ns, (name, span_id)
            assert end_ns <= parent[5] or parent[3] == 2
    asked = run.sql("SELECT span_id, server_span FROM request").rows
    assert all(spans[span_id][1] == server_span for span_id, server_span in asked)


def test_the_run_can_be_looked_at(run: Run) -> None:
    [summary] = run.query("summary").dicts()
    assert summary
    assert len(run.query("requests", lang="en").rows) == 14
    assert run.sql("SELECT sum(lost_records), bool_and(sealed) FROM ingest").rows == [(0, True)]


def test_no_process_wrote_what_another_did_not_know(run: Run) -> None:
    """Every request of the core's rows was announced by the front end."""
    assert run.sql("SELECT 1 FROM step_request ANTI JOIN request USING (request_id)").rows == []


def test_the_folder_holds_both_processes(run: Run) -> None:
    roles = dict(run.sql("SELECT role, count(*) FROM proc GROUP BY 1").rows)
    assert roles == {"api": 1, "core": 1}
