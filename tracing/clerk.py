"""A clerk: a process that answers free questions, one after the other, and can be ended in the middle of one.

A query inside the database heeds an interrupt only between vectors, and memory that a function takes for
one value is in nobody's account: `SELECT list_sum(range(1000000000))` runs a minute past its limit and takes
8 GB. The kernel's limits hold whatever the database does, but they end a process. So whoever may ask anything
is answered by a process that can be spared:

    time      an alarm, which nobody handles: the process ends
    memory    RLIMIT_DATA: what is asked for beyond it is refused, and the question with it
    answer    one that is longer than `MAX_ANSWER_BYTES` is not passed on
    nobody    waits any more: the process is killed; Linux does it where whoever asked is killed himself
    a crash   is an answer too

The next question starts another one. A run that is being recorded is asked through its recorder, whose own
limits hold there (`tracing.store`).

Invariant: a question ends within its seconds, plus one, and costs at most `MAX_BYTES`.
"""

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from tracing.errors import PutAside, TookTooLong, TookTooMuch, TraceError, from_json, to_json
from tracing.result import Result
from tracing.runs import RunInfo

if TYPE_CHECKING:
    from tracing.reader import Run

MAX_BYTES = 3 * 2**29
MAX_ANSWER_BYTES = 2**25
"""Of JSON: whoever shows it, or makes a file of it, has it several times over."""
MAX_SECONDS = 20.0
LATE_SECONDS = 1.0
"""The database may stop by itself first, and say so more kindly."""
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of Linux's prctl. The parent is the thread that started the process."""


class Clerk:
    """The near end: starts the process when it is needed. One thread asks; any thread may `stop`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._is_asked = self._is_stopped = False

    def ask(
        self,
        run_dir: Path,
        text: str,
        *,
        limit: int,
        seconds: float = MAX_SECONDS,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Result:
        """One SELECT, EXPLAIN or DESCRIBE. Raises TraceError, PutAside if it was stopped.

        `is_wanted`: whether anybody still waits, looked at when `stop` begins to count.
        """
        with self._lock:
            if not is_wanted():
                raise _put_aside()
            if self._process is None or self._process.poll() is not None:
                self._process = _start()
                weakref.finalize(self, self._process.kill)  # with its owner, or with this process
            process = self._process
            self._is_asked, self._is_stopped = True, False
        asked = {"run_dir": str(run_dir), "text": text, "limit": limit, "seconds": seconds}
        said = _exchange(process, asked)
        with self._lock:
            self._is_asked = False
        if said is None or self._is_stopped:
            self.close()
            raise self._reason(process.returncode, seconds)
        if "error" in said:
            raise from_json(said)
        return Result.from_json(said)

    def stop(self) -> None:
        """End the question that is being answered, if there is one."""
        with self._lock:
            if self._process is not None and self._is_asked:
                self._is_stopped = True
                self._process.kill()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # it died before it had read the question
                pipe.close()

    def __enter__(self) -> "Clerk":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _reason(self, status: int, seconds: float) -> TraceError:
        """Why there is no answer."""
        if self._is_stopped:
            return _put_aside()
        if status == -signal.SIGALRM:
            return TookTooLong(f"took longer than {seconds:g} s: narrow it to a range of steps")
        return _too_much()


def _start() -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-P", "-m", "tracing.clerk"]  # -P: no modules of the current folder
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)


def _exchange(process: "subprocess.Popen[bytes]", asked: dict[str, Any]) -> dict[str, Any] | None:
    """What the far end says; None: it has ended, or does not come to an end."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.flush()
        line = process.stdout.readline(MAX_ANSWER_BYTES + 1)
    except BrokenPipeError:
        return None
    if not line.endswith(b"\n"):
        return None
    said: dict[str, Any] = json.loads(line)
    return said


def _put_aside() -> PutAside:
    return PutAside("put aside: nobody waits for the answer")


def _too_much() -> TookTooMuch:
    return TookTooMuch(f"took more than {MAX_BYTES / 2**30:g} GiB of memory: narrow it")


def _too_long_an_answer() -> TookTooMuch:
    return TookTooMuch(
        f"the answer is longer than {MAX_ANSWER_BYTES / 2**20:g} MiB: ask for fewer rows or columns, "
        "or for a part of each text"
    )


class _Desk:
    """The far end: the run that was asked last stays open."""

    def __init__(self) -> None:
        self._key: tuple[str, str, str] | None = None
        self._run: Run | None = None

    def answer(self, asked: dict[str, Any]) -> str:
        """The answer as JSON, or why there is none."""
        signal.setitimer(signal.ITIMER_REAL, asked["seconds"] + LATE_SECONDS)
        try:
            run = self._opened(asked["run_dir"])
            said = json.dumps(run.sql(asked["text"], limit=asked["limit"]).to_json())
        except TraceError as error:
            said = json.dumps(to_json(error))
        except MemoryError:
            said = json.dumps(to_json(_too_much()))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return said if len(said) < MAX_ANSWER_BYTES else json.dumps(to_json(_too_long_an_answer()))

    def _opened(self, run_dir: str) -> "Run":
        from tracing.reader import open_run

        info = RunInfo.load(Path(run_dir))
        key = (run_dir, info.run_id, info.state)  # once it is sealed, its file can be opened
        if key != self._key:
            if self._run is not None:
                self._run.close()
            self._key, self._run = None, None
            self._run, self._key = open_run(Path(run_dir)), key
        assert self._run is not None
        return self._run


def main(questions: IO[str], answers: IO[str]) -> None:
    """Answer until there are no more questions."""
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.nice(10)  # whoever looks at something else comes first
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # inside the database Python's own handler waits
    desk = _Desk()
    for line in questions:
        answers.write(desk.answer(json.loads(line)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
