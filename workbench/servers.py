"""Where running servers are: one small file each, so that other commands and screens find them.

    <runtime folder>/cutaway/<pid>.json    written when a server is ready, removed when it ends

Invariant: a file whose process is gone counts for nothing, and is removed by whoever looks.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tracing.errors import TraceError


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server on this machine."""

    pid: int
    url: str
    model: str
    run_dir: str | None
    """Where it records; None: it does not."""


def servers_dir() -> Path:
    """The user's runtime folder: `$XDG_RUNTIME_DIR/cutaway`, else below the system's temporary folder."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return (
        Path(base) / "cutaway" if base else Path(tempfile.gettempdir()) / f"cutaway-{os.getuid()}"
    )


def announcement(pid: int) -> Path:
    """Where the server of this process is announced."""
    return servers_dir() / f"{pid}.json"


@contextmanager
def announced(server: RunningServer) -> Iterator[None]:
    """Let others find the server until the block ends."""
    folder = servers_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise TraceError(
            f"{folder} belongs to somebody else: set XDG_RUNTIME_DIR to a folder of yours"
        )
    path = announcement(server.pid)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(server)))
    part.rename(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_servers() -> list[RunningServer]:
    """Servers whose process lives, oldest first."""
    found: list[tuple[float, RunningServer]] = []
    for path in servers_dir().glob("*.json"):
        if not path.stem.isdecimal():  # somebody else's: the folder may be shared
            continue
        try:
            since = path.stat().st_mtime
            server = RunningServer(**json.loads(path.read_text()))
            os.kill(server.pid, 0)
        except (OSError, ValueError, TypeError):
            path.unlink(missing_ok=True)
        else:
            found.append((since, server))
    return [server for _, server in sorted(found, key=lambda item: item[0])]
