"""The recorder: the process that reads what the engine wrote, fills the tables, and answers questions.

    python -m tracing.recorder RUN_DIR [--parent PID] [--locked]

It follows the run's spools (each 50 ms; 33 ms while somebody watches), commits (each 250 ms), and serves HTTP
on a free port, which `recorder.json` in the run folder tells. It ends when told to (POST /finish, SIGTERM),
or by itself when every writer has gone and so has the process that started it. SIGINT is ignored: Ctrl-C
reaches the whole group of processes, and what is recorded of the last second is the parent's to decide.

Invariant: run.json says `sealed` only after the tables are complete and closed.
Place in the step: none; it is the engine's audience, and at a lower priority than it.
"""

import argparse
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvicorn

from tracing.errors import TraceError
from tracing.ingest import Ingest
from tracing.keyframe import describe, keyframe_at
from tracing.runs import RECORDER_FILE, RunInfo, lock_run, write_atomically
from tracing.serve import Service, make_app
from tracing.store import Store
from tracing.stream import FRAME_SECONDS, Stream

POLL_SECONDS = 0.05
COMMIT_SECONDS = 0.25
GRACE_SECONDS = 5.0
"""How long a recorder that was told to finish waits for writers that have not said goodbye."""
HANG_UP_SECONDS = 3.0
MAX_BYTES = 4 * 2**30
"""Of memory. A question that wants more fails; the engine needs it more than anybody who asks."""


class _Recorder:
    """The loop, and the lock between it and HTTP's threads."""

    def __init__(
        self, ingest: Ingest, store: Store, stream: Stream, parent_pid: int | None
    ) -> None:
        self._ingest, self._store, self._stream = ingest, store, stream
        self._parent_pid = parent_pid
        self._lock = threading.Lock()
        self._told_to_finish = threading.Event()

    def sync(self) -> None:
        """Read and commit what is in the spools now."""
        with self._lock:
            self._ingest.catch_up()
            self._stream.publish()

    def keyframe(self) -> tuple[int, dict[str, Any]]:
        """The newest frame's number, and the state after exactly its rows and those before."""
        with self._lock:
            self._ingest.catch_up()
            number = self._stream.publish()
            return number, describe(self._store) | {"state": keyframe_at(self._store)}

    def ask_to_finish(self) -> None:
        """Let the loop end soon."""
        self._told_to_finish.set()

    def follow(self) -> None:
        """Read and commit until told to finish, or until nobody is left who could write or ask."""
        next_commit = 0.0
        while not self._told_to_finish.wait(
            FRAME_SECONDS if self._stream.is_watched else POLL_SECONDS
        ):
            with self._lock:
                found = self._ingest.poll()
                self._stream.publish()
                if time.monotonic() >= next_commit:
                    self._ingest.commit()
                    next_commit = time.monotonic() + COMMIT_SECONDS
                if not found and self._is_orphan() and not self._ingest.writers_live():
                    return
        deadline = time.monotonic() + GRACE_SECONDS
        while time.monotonic() < deadline and self._writers_live():
            time.sleep(POLL_SECONDS)

    def finish(self) -> None:
        """Complete the tables."""
        with self._lock:
            self._ingest.finish()
        self._stream.end()

    def _writers_live(self) -> bool:
        with self._lock:
            self._ingest.poll()
            return self._ingest.writers_live()

    def _is_orphan(self) -> bool:
        return self._parent_pid is None or os.getppid() != self._parent_pid


def run(run_dir: Path, parent_pid: int | None) -> None:
    """Record a run from here to its end. Raises TraceError if it is no run. The caller holds its lock."""
    info = RunInfo.load(run_dir)
    if info.state == "sealed":
        return
    store = Store.writable(run_dir, _die)
    stream = Stream()
    recorder = _Recorder(Ingest(run_dir, info, store, stream), store, stream, parent_pid)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: recorder.ask_to_finish())
    service = Service(
        *(store, asdict(info), stream, recorder.keyframe, recorder.sync, recorder.ask_to_finish)
    )
    server, thread, url = _serve(service)
    write_atomically(run_dir / RECORDER_FILE, {"url": url, "pid": os.getpid()})
    try:
        recorder.follow()
        recorder.finish()
        summary = store.query("summary").dicts()[0]
    finally:
        # Whoever listens has been told the end. Neither who does not, nor a question, holds up the seal.
        server.should_exit = True
        thread.join(HANG_UP_SECONDS)
        store.close()
        (run_dir / RECORDER_FILE).unlink()
    info.sealed(summary).save(run_dir)


def _serve(service: Service) -> tuple[uvicorn.Server, threading.Thread, str]:
    """HTTP in a thread of its own, on a free port of this machine."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else small pieces wait 40 ms
    config = uvicorn.Config(
        make_app(service),
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    # A viewer that does not read is cut off; that is no error worth a line in the log.
    logging.getLogger("uvicorn.error").addFilter(lambda line: "running task(s)" not in line.msg)
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="http", daemon=True
    )
    thread.start()
    return server, thread, f"http://127.0.0.1:{listener.getsockname()[1]}"


def _die() -> None:
    """End with a question that heeds no limit: nothing else ends it.

    The spools keep what happens. Whoever looks after the run, or looks at it next, starts another recorder,
    which goes on from there.
    """
    print("a question heeded no limit: ending with it", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tracing.recorder", description=__doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--parent", type=int, help="process whose end ends the recorder too")
    parser.add_argument("--locked", action="store_true", help="the run's lock is inherited")
    args = parser.parse_args()
    os.nice(5)
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_BYTES, MAX_BYTES))
    if not args.locked and lock_run(args.run_dir) is None:
        raise TraceError(f"another recorder has {args.run_dir}")
    run(args.run_dir, args.parent)
    os._exit(0)  # sealed and closed: no thread that still answers somebody is waited for


if __name__ == "__main__":
    main()
