import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tracing
from tests.tracing.conftest import RunFolder
from tests.tracing.sim import Sim
from tracing.errors import TookTooLong, TraceError
from tracing.parquet import export_run
from tracing.queries import query_names
from tracing.record import NULL, Code
from tracing.runs import RunInfo
from tracing.store import Store

REQUEST = (1 << 32) + 1


def busy_run(folder: RunFolder) -> Sim:
    """Twenty steps, one request with a whole life, and decisions of every kind that is told."""
    api, core = folder.recorder("api"), folder.recorder()
    sim = Sim(core, seed=5)
    fields = (REQUEST, NULL, 1, 2, 3, NULL, sim.now, 1, 12, 8, 0, 0, 700_000, 900_000, 5, NULL)
    api.request(fields, external_id="client-7", operation="chat")
    arrived = sim.now
    for step in range(20):
        core.begin_step(step, sim.now)
        if step == 4:
            core.decision(Code.PREEMPT_LAST, REQUEST, 3, 12, 2, 0, other=REQUEST + 1)
            core.decision(Code.STOP_NO_BLOCKS, REQUEST + 2, 5, 1)
            core.decision(Code.CUT_BUDGET, REQUEST, 30, 8, 8)
        core.decision(Code.STOP_MAX_SEQS, REQUEST + 3, 8, 8)
        sim.run_step()
    now = sim.now
    api.phase(REQUEST, 3, arrived, arrived + 1_000_000, -1, NULL)
    api.phase(REQUEST, 5, arrived + 1_000_000, now, 1, 19)
    end = (REQUEST, now, Code.END_LENGTH, 200, 3, 4, 0, 1, arrived + 2_000_000, now, NULL, NULL, 3)
    api.request_end(end)
    return sim


def test_every_named_query_runs_and_says_what_it_is(folder: RunFolder) -> None:
    busy_run(folder)
    values = {
        **{"engine": 0, "a": 0, "b": 2**62, "lang": "zh", "n": 5, "step": 4},
        **{"request": REQUEST, "k_seq": -1, "n_seq": 2**62, "owner": REQUEST, "lo": 0, "hi": 4},
        **{"before": 2**62, "block": 1, "direction": 1, "done": 2, "kind": "evict", "limit": 5},
        "t_ns": 2**62,
    }
    with folder.finished_store() as store:
        for name in query_names():
            text = (Path(__file__).parents[2] / "tracing/sql" / f"{name}.sql").read_text()
            assert text.startswith("-- "), f"{name} does not open by saying what it is"
            code = re.sub(r"--.*", "", text)
            asked = {word: values[word] for word in set(re.findall(r"\$(\w+)", code))}
            assert store.query(name, **asked).rows, name


def test_metrics_are_what_they_are_defined_to_be(folder: RunFolder) -> None:
    sim = busy_run(folder)
    with folder.finished_store() as store:
        (summary,) = store.query("summary").dicts()
        assert (summary["requests"], summary["steps"], summary["open_requests"]) == (1, 20, 0)
        assert summary["output_tokens"] == sum(sim.outputs.values())
        assert (summary["model"], summary["policy"], summary["num_blocks"]) == ("toy", "vllm", 24)
        latency = {row["metric"]: row for row in store.query("latency_percentiles").dicts()}
        assert latency["ttft_ns"]["p50"] == 2_000_000
        assert latency["queue_ns"]["p50"] == 1_000_000
        assert latency["ttft_ns"]["p95"] is None, "one sample says nothing about a tail"
        (life,) = store.query("requests", lang="en").dicts()
        assert life["tpot_ns"] == (life["e2e_ns"] - 2_000_000) / 2
        assert life["ended_by"] == "reached its 3 tokens"
        assert life["request"] == "#1"


def test_the_most_telling_decisions_are_diverse_and_speak_both_languages(folder: RunFolder) -> None:
    busy_run(folder)
    with folder.finished_store() as store:
        told = store.query("telling_decisions", n=5, lang="en").dicts()
        assert [row["name"] for row in told] == [
            *("PREEMPT_LAST", "STOP_NO_BLOCKS", "KV_EVICT", "CUT_BUDGET", "HIT_PART")
        ]
        assert told[0]["sentence"] == (
            "preempted for #2, which needs 2 with 0 free: last admitted; 3 blocks, 12 tokens lost"
        )
        assert (told[0]["step"], told[0]["request"]) == (4, "#1")
        chinese = store.query("telling_decisions", n=5, lang="zh").rows
        assert "为 #2 被抢占" in chinese[0][-1]


def test_who_waits_behind_somebody_is_told_so(folder: RunFolder) -> None:
    api, core = folder.recorder("api"), folder.recorder()
    sim = Sim(core)
    waiting, head = REQUEST + 9, REQUEST
    api.phase(waiting, 3, sim.now, sim.now + 10**9, -1, NULL)
    start = sim.tick()
    core.begin_step(0, start)
    core.decision(Code.STOP_NO_BLOCKS, head, 5, 1)
    sim.end_step(start)
    with folder.finished_store() as store:
        card = store.query("why_card", engine=0, step=0, request=waiting).dicts()
        assert [row["name"] for row in card] == ["STOP_NO_BLOCKS", "BEHIND"][::-1]
        assert card[0]["en"] == "waits behind #1, at which the loop stopped"
        own = store.query("why_card", engine=0, step=0, request=head).dicts()
        assert [row["name"] for row in own] == ["STOP_NO_BLOCKS"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM glob('/*')",
        "FROM '/etc/passwd'",
        "FROM 'http://127.0.0.1:1/x.csv'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 4",
        "PRAGMA database_list",
        "COPY step TO '/tmp/stolen.csv'",
        "EXPORT DATABASE '/tmp/stolen'",
        "INSERT INTO run VALUES (NULL)",
        "DELETE FROM step",
        "DROP TABLE step",
        "CREATE TEMP TABLE x (a INTEGER)",
        "WITH x AS (INSERT INTO clock VALUES (1, 2, 3) RETURNING *) SELECT * FROM x",
        "EXPLAIN ANALYZE INSERT INTO clock VALUES (1, 2, 3)",
        "EXPLAIN ANALYZE COPY (SELECT 42) TO '{temp}/written.csv'",
        "explain /* a comment */ analyze copy (select 42) to '{temp}/written.csv'",
        "/**/ EXPLAIN (ANALYZE, FORMAT json) COPY (SELECT 42) TO '{temp}/written.csv'",
        "-- a comment\nEXPLAIN ANALYZE COPY (SELECT 42) TO '{temp}/written.csv'",
        "-- one\r/* two */explain/* three */analyze-- four\ncopy (select 42) to '{temp}/written.csv'",
        "-- one\rexplain analyze copy (select 42) to '{temp}/written.csv' -- \nexplain select 1",
        "/* /* */ explain select 1 -- */ explain analyze copy (select 42) to '{temp}/written.csv'",
        "SELECT * FROM read_text('{temp}/other.txt')",
        "SELECT * FROM read_text('.tmp/other.txt')",
        "SELECT * FROM glob('{temp}/*')",
        "BEGIN",
        "CHECKPOINT",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE step",
        "",
        "SELEC 1",
        "SELECT * FROM values_of_python",
    ],
)
def test_what_people_ask_can_only_read_the_trace(folder: RunFolder, text: str) -> None:
    values_of_python = {"a": [1]}
    temp = folder.path / "trace.duckdb.tmp"  # where DuckDB would put what does not fit into memory
    temp.mkdir()
    (temp / "other.txt").write_text("not the trace's")
    text = text.replace("{temp}", str(temp))
    with folder.finished_store() as store:
        clocks = store.sql("FROM clock").rows
        with pytest.raises(TraceError):
            store.sql(text)
        assert store.sql("FROM clock").rows == clocks
    with Store.read_only(folder.path) as store, pytest.raises(TraceError):
        store.sql(text)
    assert [path.name for path in temp.iterdir()] == ["other.txt"]
    assert values_of_python


def test_threads_may_open_the_same_run_at_once(folder: RunFolder) -> None:
    folder.finished_store().close()
    for _ in range(10):
        with ThreadPoolExecutor(8) as pool:
            stores = list(pool.map(Store.read_only, [folder.path] * 8))
        for store in stores:
            with store, pytest.raises(TraceError):
                store.sql("SET threads = 4")


@pytest.mark.parametrize("place", [".tmp", "{cwd}/.tmp"])
def test_a_run_of_parquet_files_opens_no_folder_either(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".tmp").mkdir()
    (tmp_path / ".tmp" / "other.txt").write_text("not the trace's")
    path = place.replace("{cwd}", str(tmp_path))
    with Store.from_parquet(Path(tracing.__file__).parents[1] / "traces" / "sample") as store:
        assert store.sql("SELECT count(*) FROM step").rows[0][0] > 100
        with pytest.raises(TraceError):
            store.sql(f"SELECT * FROM read_text('{path}/other.txt')")
        with pytest.raises(TraceError):
            store.sql(f"EXPLAIN ANALYZE COPY (SELECT 42) TO '{path}/written.csv'")
        allowed = "SELECT value FROM duckdb_settings() WHERE name LIKE 'allowed_%'"
        assert {row[0] for row in store.sql(allowed).rows} <= {"[]", "", None}
    assert len(list((tmp_path / ".tmp").iterdir())) == 1


@pytest.mark.parametrize(
    "text",
    [
        *("SELECT 1", "EXPLAIN SELECT 1", "DESCRIBE step", "FROM run", "SHOW TABLES"),
        "-- why\nexplain select 1",
        "/* why */ -- and how\n explain/**/analyze -- it runs\n select 1",
    ],
)
def test_what_only_reads_is_answered(folder: RunFolder, text: str) -> None:
    with folder.finished_store() as store:
        assert store.sql(text).rows


def test_a_query_that_takes_too_long_is_interrupted_and_the_store_goes_on(
    folder: RunFolder,
) -> None:
    with folder.finished_store() as store:
        with pytest.raises(TraceError, match="took longer than"):
            store.sql("SELECT count(*) FROM range(10000000000) a, range(1000) b", seconds=0.05)
        assert store.sql("SELECT 1").rows == [(1,)]


def test_more_rows_than_the_limit_are_cut_and_it_is_said(folder: RunFolder) -> None:
    with folder.finished_store() as store:
        some = store.sql("FROM range(100)", limit=7)
        assert (len(some.rows), some.truncated) == (7, True)
        assert not store.sql("FROM range(7)", limit=7).truncated


def test_unknown_and_incomplete_questions_are_answered_with_advice(folder: RunFolder) -> None:
    with folder.finished_store() as store:
        with pytest.raises(TraceError, match=r"there are .*hit_rate"):
            store.query("hit_rat")
        with pytest.raises(TraceError, match="step"):
            store.query("step_rows", engine=0, lang="en")


def test_queries_of_other_threads_go_on_while_rows_are_committed(folder: RunFolder) -> None:
    from tracing.ingest import Ingest

    sim = Sim(folder.recorder(), seed=8)
    counts: list[int] = []
    done = threading.Event()
    with Store.writable(folder.path) as store:
        ingest = Ingest(folder.path, folder.info, store)

        def ask() -> None:
            while not done.is_set():
                counts.append(store.sql("SELECT count(*) FROM step").rows[0][0])

        asker = threading.Thread(target=ask)
        asker.start()
        for _ in range(30):
            sim.run_step()
            ingest.catch_up()
        done.set()
        asker.join()
    assert counts == sorted(counts)


def test_a_run_in_parquet_answers_every_question_as_before(
    folder: RunFolder, tmp_path: Path
) -> None:
    busy_run(folder)
    with folder.finished_store() as store:
        tables = [row[0] for row in store.sql("SELECT table_name FROM duckdb_tables()").rows]
        expected = {name: store.sql(f"FROM {name}").rows for name in (*tables, "otel_spans")}
    sample = tmp_path / "sample"
    with pytest.raises(TraceError, match="still being recorded"):
        export_run(folder.path, sample)
    folder.info.sealed({}).save(folder.path)
    export_run(folder.path, sample)
    assert RunInfo.load(sample).store == "parquet"
    with Store.from_parquet(sample) as store:
        for name, rows in expected.items():
            assert store.sql(f"FROM {name}").rows == rows, name
        with pytest.raises(TraceError):
            store.sql(f"FROM '{sample}/step.parquet'")
        with pytest.raises(TraceError):
            store.sql("SET enable_external_access = true")
    with pytest.raises(TraceError, match="not empty"):
        export_run(folder.path, sample)


def test_one_file_is_open_in_one_process_only(folder: RunFolder, tmp_path: Path) -> None:
    import subprocess
    import sys

    with folder.finished_store():
        code = (
            "import sys; from pathlib import Path; from tracing.store import Store\n"
            "from tracing.errors import TraceError\n"
            "try: Store.read_only(Path(sys.argv[1]))\n"
            "except TraceError as e: print(e)"
        )
        said = subprocess.run(
            [sys.executable, "-c", code, str(folder.path)],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    assert "open in another process" in said.stdout


def test_a_query_that_heeds_no_interrupt_is_given_up(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracing.database.DEAF_SECONDS", 0.05)
    given_up = threading.Event()
    folder.finished_store().close()
    with Store.writable(folder.path, given_up.set) as store:
        store.sql("SELECT 42", seconds=0.05)
        with pytest.raises(TookTooLong):
            # One value, a second: nothing inside looks for an interrupt.
            store.sql("SELECT len(list_distinct(range(1000000)))", seconds=0.05)
        assert given_up.is_set()
