import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest

import tracing
from tests.tracing.sim import Sim
from tracing.errors import TraceError
from tracing.reader import LiveRun
from tracing.record import Code, Level
from tracing.recording import Recording, RunHandle
from tracing.runs import RECORDER_FILE, RunInfo
from tracing.store import Store


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    made = tracing.start(tmp_path / "run")
    yield made
    made.close()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def kill_recorder(recording: Recording) -> None:
    recording._children[-1].kill()
    recording._children[-1].wait()


def run_steps(sim: Sim, n: int) -> None:
    for _ in range(n):
        sim.run_step()


def num_steps(recording: Recording) -> int:
    return int(recording.sql("SELECT count(*) FROM step").rows[0][0])


def test_a_run_from_start_to_seal(tmp_path: Path) -> None:
    with tracing.start(tmp_path / "run") as recording:
        sim = Sim(recording.recorder("core"), seed=1)
        recording.tracer_provider.get_tracer("t").start_span("POST /").end()
        run_steps(sim, 5)
        recording.sync()
        assert num_steps(recording) == 5
        assert recording.query("summary").dicts()[0]["model"] == "toy"
        run_steps(sim, 2)
    assert num_steps(recording) == 7, "a closed recording can still be asked"
    info = RunInfo.load(tmp_path / "run")
    assert (info.state, info.summary["steps"]) == ("sealed", 7)
    assert not (tmp_path / "run" / RECORDER_FILE).exists()
    assert (tmp_path / "run" / "recorder.log").read_text() == ""
    run = tracing.open_run(tmp_path / "run")
    assert run.sql("SELECT a0 FROM event WHERE code = 1002").rows == [(1,)]
    assert run.sql("SELECT name FROM otel_spans WHERE source = 'span'").rows == [("POST /",)]
    run.close()
    with pytest.raises(TraceError, match="is a run already"):
        tracing.start(tmp_path / "run")


def test_a_recorder_that_is_killed_is_followed_by_one_that_goes_on(recording: Recording) -> None:
    sim = Sim(recording.recorder("core"), seed=2)
    run_steps(sim, 30)
    recording.sync()
    kill_recorder(recording)
    run_steps(sim, 30)
    recording.sync()  # starts another
    assert num_steps(recording) == 60
    kill_recorder(recording)
    run_steps(sim, 1)
    recording.close()
    counted = recording.sql("SELECT count(*), count(DISTINCT step), max(step) FROM step").rows
    assert counted == [(61, 61, 60)]
    assert recording.sql("SELECT sum(lost_records) FROM ingest").rows == [(0,)]
    tokens = recording.sql("SELECT count(*), count(DISTINCT (request_id, k)) FROM token").rows
    assert tokens == [(sum(sim.outputs.values()),) * 2]
    assert recording.sql("SELECT count(*) FROM run").rows == [(1,)]


def test_ctrl_c_spares_the_recorder_and_sigterm_lets_it_finish(recording: Recording) -> None:
    sim = Sim(recording.recorder("core"))
    run_steps(sim, 3)
    assert recording.url
    os.kill(recording._children[-1].pid, signal.SIGINT)
    recording.sync()
    assert num_steps(recording) == 3
    run_steps(sim, 1)
    recording.recorder("core").close()
    os.kill(recording._children[-1].pid, signal.SIGTERM)
    assert recording._children[-1].wait(timeout=60) == 0
    run = tracing.open_run(recording.run_dir)
    assert run.sql("SELECT count(*) FROM step").rows == [(4,)]
    run.close()


def test_only_this_machine_may_ask(recording: Recording) -> None:
    def status(headers: dict[str, str]) -> int:
        return httpx.post(
            f"{recording.url}/query", json={"name": "summary"}, headers=headers
        ).status_code

    assert status({}) == 200
    assert status({"Host": "localhost:1234"}) == 200
    assert status({"Origin": "http://127.0.0.1:8050"}) == 200
    assert status({"Host": "evil.example"}) == 403
    assert status({"Host": "127.0.0.1.evil.example"}) == 403
    assert status({"Origin": "http://evil.example"}) == 403
    assert status({"Origin": "null"}) == 403
    assert status({"Host": "["}) == 403
    assert status({"Origin": "http://["}) == 403


def test_questions_over_http_are_guarded_and_answered_like_in_the_store(
    recording: Recording,
) -> None:
    run_steps(Sim(recording.recorder("core")), 3)
    recording.sync()
    live = LiveRun(recording.url)
    with pytest.raises(TraceError, match="only be read"):
        live.sql("DELETE FROM step")
    with pytest.raises(TraceError, match="there are"):
        live.query("nothing")
    assert live.sql("FROM range(5)", limit=2).truncated
    assert live.sql("SELECT 'NaN'::DOUBLE, 2^63::UBIGINT, [1, NULL]").rows == [
        (None, 2**63, [1, None])
    ]
    live.close()
    answers = httpx.post(f"{recording.url}/query", json={}).json()
    assert "SELECT" in answers["error"]


def child(handle: RunHandle, text: bytes) -> None:
    recorder = tracing.attach(handle, "core")
    recorder.begin_step(0, recorder.clock())
    recorder.cached(Code.KV_CACHED, 1, 5, 0, text, None)
    sim = Sim(recorder)
    run_steps(sim, 4)
    recorder.close()


def test_a_child_process_joins_in_under_the_same_key(recording: Recording) -> None:
    api = recording.recorder("api")
    process = multiprocessing.get_context("spawn").Process(
        target=child, args=(recording.handle, b"x")
    )
    process.start()
    process.join(60)
    assert process.exitcode == 0
    recording.sync()
    procs = recording.sql("SELECT proc_id, engine_id, role FROM proc ORDER BY 1").rows
    assert procs == [(1, None, "api"), (2, 0, "core")]
    nodes = recording.sql("SELECT node_id FROM cache_event ORDER BY seq LIMIT 1").rows
    assert nodes == [(api.mask(b"x"),)], "both mask hashes with the run's key"
    assert RunHandle(**asdict(recording.handle)) == recording.handle
    files = b"".join(
        path.read_bytes() for path in recording.run_dir.iterdir() if path.suffix != ".lock"
    )
    key = recording.handle.hash_key
    assert key.encode() not in files
    assert bytes.fromhex(key) not in files


def test_a_run_whose_processes_all_died_is_completed_at_the_next_look(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, tracing\n"
        "from tests.tracing.sim import Sim\n"
        "recording = tracing.start(sys.argv[1])\n"
        "sim = Sim(recording.recorder('core'))\n"
        "for _ in range(5): sim.run_step()\n"
        "recording.sync()\n"
        "os.kill(recording._children[-1].pid, signal.SIGKILL)\n"
        "for _ in range(5): sim.run_step()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")],
        cwd=Path(__file__).parents[2],
        timeout=120,
    )
    assert RunInfo.load(tmp_path / "run").state == "recording"
    run = tracing.open_run(tmp_path / "run")
    assert isinstance(run, Store)
    assert run.sql("SELECT count(*), count(DISTINCT step) FROM step").rows == [(10, 10)]
    run.close()
    assert RunInfo.load(tmp_path / "run").state == "sealed"


def test_a_recorder_without_parent_and_writers_ends_by_itself(tmp_path: Path) -> None:
    code = (
        "import os, sys, tracing\n"
        "from tests.tracing.sim import Sim\n"
        "sim = Sim(tracing.start(sys.argv[1]).recorder('core'))\n"
        "for _ in range(5): sim.run_step()\n"
        "os._exit(1)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")],
        cwd=Path(__file__).parents[2],
        timeout=120,
    )
    wait_for(lambda: RunInfo.load(tmp_path / "run").state == "sealed")
    run = tracing.open_run(tmp_path / "run")
    assert run.sql("SELECT count(*) FROM step").rows == [(5,)]
    run.close()


def test_somebody_else_may_look_at_a_live_run_even_if_its_recorder_died(
    recording: Recording,
) -> None:
    run_steps(Sim(recording.recorder("core")), 3)
    recording.sync()
    other = tracing.open_run(recording.run_dir)
    assert isinstance(other, LiveRun)
    other.close()
    kill_recorder(recording)
    again = tracing.open_run(recording.run_dir)  # the engine lives, so a new recorder is started
    assert isinstance(again, LiveRun)
    assert again.sql("SELECT count(*) FROM step").rows == [(3,)]
    again.finish()
    again.close()
    recording.recorder("core").close()
    wait_for(lambda: RunInfo.load(recording.run_dir).state == "sealed")


def test_the_level_is_handed_on(tmp_path: Path) -> None:
    with tracing.start(tmp_path / "run", level=Level.STEPS) as recording:
        run_steps(Sim(recording.recorder("core")), 3)
    assert recording.sql("SELECT count(*) FROM kv_event").rows == [(0,)]
    assert num_steps(recording) == 3


def test_the_engines_side_needs_the_standard_library_only() -> None:
    code = (
        "import sys, tracing.record\n"
        "heavy = {'duckdb', 'numpy', 'httpx', 'fastapi', 'opentelemetry', 'torch', 'engine'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.strip() == "[]"
