"""A clerk's limits hold whatever the database does: each question here would go on for long."""

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracing.clerk import Clerk
from tracing.errors import NotAQuestion, PutAside, TookTooLong, TookTooMuch, TraceError

RUN = Path(__file__).parents[2] / "traces/first-batch"
DEAF = "SELECT len(list_distinct(range(10000000)))"
"""One value, many seconds: no interrupt is heeded inside."""


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
    clerk._process.kill()  # type: ignore[union-attr]  # while nobody asks
    clerk._process.wait()  # type: ignore[union-attr]
    assert clerk.ask(RUN, "SELECT 42", limit=3).rows == [(42,)]
