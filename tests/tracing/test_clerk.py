"""A clerk's limits hold whatever the database does: each question here would go on for long."""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import tracing
from tracing import clerk as far
from tracing.clerk import Clerk
from tracing.errors import NotAQuestion, PutAside, TookTooLong, TookTooMuch, TraceError
from tracing.runs import RunInfo

RUN = Path(__file__).parents[2] / "traces/first-batch"
DEAF = "SELECT len(list_distinct(range(10000000)))"
"""One value, many seconds: no interrupt is heeded inside."""
ENDLESS = "SELECT count(*) FROM range(1000000000000) a, range(1000) b"


@pytest.fixture
def clerk() -> Iterator[Clerk]:
    with Clerk() as made:
        yield made


def test_it_answers_what_can_be_read_and_says_why_not(clerk: Clerk) -> None:
    found = clerk.ask(RUN, "SELECT step FROM step ORDER BY step", limit=3)
    assert (found.columns, found.rows, found.truncated) == (("step",), [(0,), (1,), (2,)], True)
    for text, kind in (
        ("DROP TABLE step", NotAQuestion),
        ("SELECT 1; SELECT 2", NotAQuestion),
        ("SELECT * FROM read_csv('/etc/passwd')", TraceError),
        ("SELECT list_sum(range(1000000000))", TookTooMuch),
    ):
        with pytest.raises(kind):
            clerk.ask(RUN, text, limit=3)
    with pytest.raises(TraceError, match="Parser Error"):
        clerk.ask(RUN, "SELEC 1", limit=3)


def test_time_ends_what_heeds_no_interrupt_and_the_next_question_is_answered(clerk: Clerk) -> None:
    with pytest.raises(TookTooLong):
        clerk.ask(RUN, DEAF, limit=3, seconds=0.2)
    assert clerk.ask(RUN, "SELECT 42", limit=3).rows == [(42,)]


def test_whoever_asked_may_leave(clerk: Clerk) -> None:
    def leave() -> None:
        while not clerk._is_asked:
            time.sleep(0.01)
        clerk.stop()

    threading.Thread(target=leave).start()
    with pytest.raises(PutAside):
        clerk.ask(RUN, DEAF, limit=3)
    assert clerk.ask(RUN, "SELECT 42", limit=3).rows == [(42,)]


def test_what_nobody_wants_any_more_is_not_asked(clerk: Clerk) -> None:
    with pytest.raises(PutAside):
        clerk.ask(RUN, ENDLESS, limit=3, is_wanted=lambda: False)
    assert clerk.ask(RUN, "SELECT 42", limit=3).rows == [(42,)]


def test_an_answer_may_be_long_but_not_too_long(
    clerk: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = clerk.ask(RUN, "SELECT repeat('ab', 10000000)", limit=3).rows[0]
    assert len(cell) == 20_000_000
    for text in ("SELECT repeat('ab', 30000000)", "SELECT error(repeat('ab', 30000000))"):
        with pytest.raises(TookTooMuch, match="fewer rows or columns"):
            clerk.ask(RUN, text, limit=3)
    # The near end does not rely on the far one.
    monkeypatch.setattr(far, "MAX_ANSWER_BYTES", 1000)
    with pytest.raises(TookTooMuch):
        clerk.ask(RUN, "SELECT repeat('ab', 1000)", limit=3)
    assert clerk.ask(RUN, "SELECT 42", limit=3).rows == [(42,)]


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own doing, on Linux")
def test_it_ends_with_whoever_asked() -> None:
    code = (
        "import sys; from pathlib import Path; from tracing.clerk import Clerk\n"
        "clerk = Clerk(); clerk.ask(Path(sys.argv[1]), 'SELECT 1', limit=1)\n"
        "print(clerk._process.pid, flush=True)\n"
        f"clerk.ask(Path(sys.argv[1]), {ENDLESS!r}, limit=1, seconds=600)"
    )
    command = [sys.executable, "-c", code, str(RUN)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        while _cpu_ticks(pid) < 100:  # it is in the middle of the question
            time.sleep(0.02)
        owner.kill()
    deadline = time.monotonic() + 10
    while _is_alive(pid):
        assert time.monotonic() < deadline, "nobody waits, and it goes on"
        time.sleep(0.02)


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process, from its state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _cpu_ticks(pid: int) -> int:
    return sum(map(int, _stat(pid)[11:13]))


def _is_alive(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return _stat(pid)[0] != "Z"
    return False


def test_files_of_the_folder_one_stands_in_are_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "queue", "duckdb"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(7)\n")
    monkeypatch.chdir(tmp_path)
    with Clerk() as here:
        assert here.ask(RUN, "SELECT 1", limit=3).rows == [(1,)]
    recording = tracing.start(tmp_path / "run")
    recording.recorder("core").flush()
    recording.close()
    assert RunInfo.load(tmp_path / "run").state == "sealed"


def test_a_crash_is_an_answer_too(clerk: Clerk) -> None:
    def crash() -> None:
        while not clerk._is_asked:
            time.sleep(0.01)
        assert clerk._process is not None
        clerk._process.send_signal(signal.SIGSEGV)

    threading.Thread(target=crash).start()
    with pytest.raises(TookTooMuch):
        clerk.ask(RUN, DEAF, limit=3)
    assert clerk.ask(RUN, "SELECT 42", limit=3).rows == [(42,)]
    process = clerk._process
    assert process is not None
    process.kill()  # while nobody asks
    process.wait()
    assert clerk.ask(RUN, "SELECT 42", limit=3).rows == [(42,)]
