"""The runs that the workbench can show, by name, and the few of them that are open.

A name in an address is looked up among known runs and is never a path, so no address can reach a file. A
run that is being recorded is asked through its recorder; when it is sealed in between, the next question
opens its file instead, and nobody has to notice.

Invariant: at most `MAX_OPEN` runs stay open, and none is closed while it answers; any thread may ask.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import tracing
from tracing.errors import TraceError
from tracing.reader import LiveRun, Run
from tracing.runs import RunInfo, find_run

MAX_OPEN = 6
Answer = TypeVar("Answer")
_Key = tuple[Path, str]
"""Folder and run id: a folder that was made anew is another run."""


class UnknownRun(TraceError):
    """No run has this name."""

    key = "unknown_run"


class NoRuns(UnknownRun):
    """There is no run at all."""

    key = "no_runs"


class NoSuchStep(TraceError):
    """A step that the run never had."""

    key = "no_such_step"


class WhichRequest(TraceError):
    """A mark of a request, without the request."""

    key = "which_request"


@dataclass(slots=True)
class _Handle:
    """An open run and how many questions it is answering."""

    run: Run
    users: int = 0
    is_dropped: bool = False


class Library:
    """Known runs, found anew at each look, and open ones."""

    def __init__(self, given: Sequence[str] = ()) -> None:
        """`given`: runs named on the command line, which may lie anywhere. Raises TraceError."""
        self.given = [find_run(text).resolve() for text in given]
        self._known: dict[str, Path] = {}
        """Name -> folder, as of the last look. Replaced as a whole, so any thread may read it."""
        self._open: OrderedDict[_Key, _Handle] = OrderedDict()
        self._lock = threading.Lock()

    def runs(self) -> list[tuple[str, Path, RunInfo]]:
        """(name, folder, run.json), newest first; given ones before all others."""
        found = {path.name: (path, info) for path, info in tracing.list_runs()}
        for path in self.given:
            found[path.name] = (path, RunInfo.load(path))
        first = {path.name for path in self.given}
        self._known = {name: path for name, (path, _) in found.items()}
        rows = [(name, path, info) for name, (path, info) in found.items()]
        return sorted(rows, key=lambda row: (row[0] not in first, -row[2].created_ns))

    def find(self, name: str) -> tuple[Path, RunInfo]:
        """Folder and run.json of a run. Raises UnknownRun."""
        with suppress(KeyError, TraceError, OSError):  # looked at a moment ago, and still there
            return self._known[name], RunInfo.load(self._known[name])
        for known, path, info in self.runs():
            if known == name:
                return path, info
        raise UnknownRun(
            f"there is no run {name!r} (any more): the start page lists those there are"
        )

    def newest(self) -> str:
        """The name of the newest run. Raises UnknownRun with advice if there are none."""
        runs = self.runs()
        if not runs:
            raise NoRuns("no runs yet: `cutaway demo` makes one")
        return runs[0][0]

    def ask(self, name: str, question: Callable[[Run], Answer]) -> Answer:
        """Put a question to a run. Raises TraceError, and UnknownRun for a name that is none.

        A recorder that went away while we asked has sealed its run or died; either way the run opens once
        more.
        """
        key = self._key(name)
        with self._using(key) as run:
            try:
                return question(run)
            except TraceError:
                if not isinstance(run, LiveRun) or run.answers():
                    raise
        self._drop(key)
        with self._using(key) as run:
            return question(run)

    def live_url(self, name: str) -> str | None:
        """Where a run's recorder answers; None: it is not being recorded."""
        if self.find(name)[1].state == "sealed":
            return None
        with self._using(self._key(name)) as run:
            return run.url if isinstance(run, LiveRun) else None

    def close(self) -> None:
        """Let go of all runs; those in use close when their question is answered."""
        for key in list(self._open):
            self._drop(key)

    def _key(self, name: str) -> _Key:
        path, info = self.find(name)
        return path, info.run_id

    @contextmanager
    def _using(self, key: _Key) -> Iterator[Run]:
        """An open run that stays open until the block ends."""
        handle = self._opened(key)
        try:
            yield handle.run
        finally:
            with self._lock:
                handle.users -= 1
                is_last = handle.users == 0 and handle.is_dropped
            if is_last:
                handle.run.close()

    def _opened(self, key: _Key) -> _Handle:
        with self._lock:
            handle = self._open.get(key)
            if handle is not None:
                self._open.move_to_end(key)
                handle.users += 1
                return handle
        made = _Handle(tracing.open_run(key[0]))  # may wait for a recorder: not under the lock
        with self._lock:
            handle = self._open.setdefault(key, made)
            handle.users += 1
            too_many = list(self._open)[:-MAX_OPEN]
        if handle is not made:
            made.run.close()  # somebody was faster
        for old in too_many:
            self._drop(old)
        return handle

    def _drop(self, key: _Key) -> None:
        """Take a run out of the open ones; it closes as soon as nobody uses it."""
        with self._lock:
            handle = self._open.pop(key, None)
            if handle is None:
                return
            handle.is_dropped = True
            is_idle = handle.users == 0
        if is_idle:
            handle.run.close()
