"""Asking a run: the same two questions, whatever state the run is in.

    live          its recorder answers over HTTP, because nobody else can open the file
    sealed        the file, read-only
    Parquet       a folder of files, loaded into memory (sample runs)
    interrupted   nobody records it any more, and it was never completed: that is done first

Invariant: a query means the same in all of them; they share `tracing/sql` and the schema.
"""

import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Protocol

import httpx
import msgspec

from tracing.errors import NoAnswer, TraceError, from_json
from tracing.follow import StreamEvent, follow
from tracing.result import Result
from tracing.runs import RECORDER_FILE, RunInfo, find_run, lock_run, recorder_url

PATIENCE_SECONDS = 30.0


class Run(Protocol):
    """A run that can be asked. Both methods raise TraceError with advice."""

    def query(self, name: str, /, **params: Any) -> Result:
        """A query of `tracing/sql` by name."""
        ...

    def sql(self, text: str, *, limit: int = ...) -> Result:
        """One SELECT, EXPLAIN or DESCRIBE."""
        ...

    def close(self) -> None:
        """Let go of the file or the connection."""
        ...


class LiveRun:
    """A run whose recorder answers."""

    def __init__(self, url: str) -> None:
        self.url = url
        # No proxies and no redirects: this talks to a process on this machine.
        self._http = httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, trust_env=False)

    def query(self, name: str, /, **params: Any) -> Result:
        """A query of `tracing/sql` by name. Raises TraceError."""
        return Result.from_json(self._post("/query", {"name": name, "params": params}))

    def sql(self, text: str, *, limit: int = 100_000) -> Result:
        """One SELECT, EXPLAIN or DESCRIBE. Raises TraceError."""
        return Result.from_json(self._post("/query", {"sql": text, "limit": limit}))

    def follow(self, after: str | None = None) -> AsyncGenerator[StreamEvent]:
        """The live stream from here on, or behind a cursor, until the run ends (`tracing.follow`)."""
        return follow(lambda: self.url, after)

    def sync(self) -> None:
        """Returns when everything in the spools right now can be asked for."""
        self._post("/sync", {})

    def answers(self) -> bool:
        """Whether the recorder is still there."""
        try:
            return self._http.get("/health").status_code == 200
        except httpx.HTTPError:
            return False

    def finish(self) -> None:
        """Ask the recorder to complete the run and end; it does so on its own."""
        self._post("/finish", {})

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            response = self._http.post(path, json=body)
        except httpx.HTTPError as error:
            raise NoAnswer(f"the recorder at {self.url} does not answer: {error}") from error
        if response.status_code != 200:
            if response.status_code == 400:  # as `tracing.serve` explains itself
                raise from_json(response.json())
            raise TraceError(f"the recorder refused: {response.text}")
        said: dict[str, Any] = msgspec.json.decode(response.content)
        return said


def open_run(run: str | Path) -> Run:
    """Open a run by folder, name, unique start of its name, or `last`.

    Raises TraceError if there is none, or it cannot be opened. Close what you get.
    """
    run_dir = run if isinstance(run, Path) else find_run(run)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        info = RunInfo.load(run_dir)
        if info.state == "sealed":
            return _open_sealed(run_dir, info)
        lock = lock_run(run_dir)
        if lock is not None:
            _complete(run_dir, info, lock)
            continue
        live = try_live(run_dir, info)
        if live is not None:
            return live
        if time.monotonic() > deadline:
            raise NoAnswer(
                f"the recorder of {run_dir.name} is alive but does not answer: end its process "
                f"({run_dir / RECORDER_FILE} names it), and the run is completed at the next look"
            )
        time.sleep(0.05)  # it is starting, or about to seal the run


def state_at(run: Run, query: str, *, engine: int, step: int) -> Result:
    """The state after a step: `query` is kv_at (the block pool) or tree_at (the prefix cache)."""
    ((_, k_seq, n_seq),) = run.query("keyframe", engine=engine, n=step).rows
    return run.query(query, engine=engine, k_seq=k_seq, n_seq=n_seq)


def start_recorder(
    run_dir: Path, lock: int, *, parent: int | None = None
) -> "subprocess.Popen[bytes]":
    """Start the process that records a run and hand it the lock (`lock_run`).

    It is in a process group of its own, so Ctrl-C spares it.
    """
    command = [sys.executable, "-P", "-m", "tracing.recorder", str(run_dir), "--locked"]
    if parent is not None:
        command += ["--parent", str(parent)]
    try:
        with (run_dir / "recorder.log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                pass_fds=(lock,),
            )
    finally:
        os.close(lock)  # the child's copy holds it now


def _open_sealed(run_dir: Path, info: RunInfo) -> Run:
    from tracing.store import Store  # the database only where it is needed

    return Store.from_parquet(run_dir) if info.store == "parquet" else Store.read_only(run_dir)


def try_live(run_dir: Path, info: RunInfo) -> LiveRun | None:
    """The run's recorder, if it answers."""
    url = recorder_url(run_dir)
    if url is None:
        return None
    try:
        health = httpx.get(f"{url}/health", timeout=PATIENCE_SECONDS, trust_env=False)
        return LiveRun(url) if health.json()["run_id"] == info.run_id else None
    except (httpx.HTTPError, ValueError, KeyError):
        return None


def _complete(run_dir: Path, info: RunInfo, lock: int) -> None:
    """Nobody records this run: complete it, or have it recorded if its engine still runs."""
    from tracing.ingest import Ingest
    from tracing.store import Store

    summary = None
    with Store.writable(run_dir) as store:
        ingest = Ingest(run_dir, info, store)
        ingest.catch_up()
        if not ingest.writers_live():
            ingest.finish()
            summary = store.query("summary").dicts()[0]
    if summary is None:
        start_recorder(run_dir, lock)
    else:
        info.sealed(summary).save(run_dir)
        os.close(lock)
