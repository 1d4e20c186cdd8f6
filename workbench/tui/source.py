"""Which run is meant: nothing (a server on this machine), a URL, or a run by name.

    cutaway top                        the newest server here that records
    cutaway top localhost:8000         that server (a path like /v1 is as good), or a recorder's own address
    cutaway top last | NAME | FOLDER   a recorded run; one that is still being recorded is followed

What a server records is told by the recorder beside it, on that machine alone: a server elsewhere is watched
there, or through a forwarded port of its recorder.

Invariant: a live source can be found anew at any time, because servers restart under other ports and
other runs.
"""

import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tracing.errors import TraceError
from tracing.reader import LiveRun, Run, open_run, try_live
from tracing.runs import RunInfo, find_run, recorder_url
from workbench.servers import RunningServer, running_servers

PATIENCE_SECONDS = 3.0
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]*):\d{1,5}(/.*)?")
_HERE = ("", "localhost", "0.0.0.0", "::", "::1")


@dataclass(frozen=True, slots=True)
class Source:
    """A run, and where it is asked."""

    title: str
    created_ns: int
    is_live: bool
    find_url: Callable[[], str | None]
    """Where its recorder answers at the moment; None: nowhere. Only of a live run."""
    open: Callable[[], Run]
    """Opens it for queries. Raises TraceError."""
    run_dir: Path | None = None
    """None: it is known by the recorder's address alone."""
    server_url: str | None = None
    """The API that answers prompts; None: there is none."""
    model: str | None = None


def find_source(target: str | None) -> Source | None:
    """The run that is meant; None: no target was given and no server runs here.

    Raises TraceError with advice if the target cannot be found.
    """
    if target is None:
        recording = [server for server in running_servers() if server.run_dir is not None]
        return of_server(recording[-1]) if recording else None
    if target.startswith(("http://", "https://")):
        return _of_url(_address(target))
    if _ADDRESS.fullmatch(target) and not Path(target).exists():
        return _of_url(_address(f"http://{target}"))
    return of_run(find_run(target))


def of_server(server: RunningServer) -> Source:
    """A server that announced itself."""
    assert server.run_dir is not None
    run_dir = Path(server.run_dir)
    return _live(
        server.url.removeprefix("http://"), run_dir, RunInfo.load(run_dir), server.url, server.model
    )


def of_run(run_dir: Path) -> Source:
    """A run folder: followed if its recorder answers, replayed otherwise."""
    info = RunInfo.load(run_dir)
    if info.state != "sealed":
        live = try_live(run_dir, info)
        if live is not None:
            live.close()
            server = next((s for s in running_servers() if s.run_dir == str(run_dir)), None)
            url, model = (server.url, server.model) if server else (None, None)
            return _live(run_dir.name, run_dir, info, url, model)
    return Source(
        title=run_dir.name,
        created_ns=info.created_ns,
        is_live=False,
        find_url=lambda: None,
        open=lambda: open_run(run_dir),
        run_dir=run_dir,
        model=info.summary.get("model"),
    )


def _live(
    title: str, run_dir: Path, info: RunInfo, server_url: str | None, model: str | None
) -> Source:
    def open_live() -> Run:
        url = recorder_url(run_dir)
        if url is None:
            raise TraceError(f"nobody records {run_dir.name} at the moment")
        return LiveRun(url)

    return Source(
        title=title,
        created_ns=info.created_ns,
        is_live=True,
        find_url=lambda: recorder_url(run_dir),
        open=open_live,
        run_dir=run_dir,
        server_url=server_url,
        model=model,
    )


def _address(url: str) -> str:
    """Scheme, host and port; this machine is always 127.0.0.1. Raises TraceError."""
    try:
        said = httpx.URL(url)
        if said.port is not None and said.port > 65535:
            raise httpx.InvalidURL("a port is at most 65535")
    except httpx.InvalidURL as error:
        raise TraceError(f"{url} is no address: {error}") from error
    host = said.host
    if host in (*_HERE, socket.gethostname()):
        host = "127.0.0.1"
    return str(said.copy_with(host=host, path="/", query=None)).rstrip("/")


def _of_url(url: str) -> Source:
    for server in running_servers():
        if _address(server.url) == url:
            if server.run_dir is None:
                raise TraceError(
                    f"{url} records nothing: start it with a trace level other than off"
                )
            return of_server(server)
    said = _ask(f"{url}/run")
    if "created_ns" not in said:
        raise _no_recorder(url, _ask(f"{url}/health"))
    return Source(
        title=url.removeprefix("http://"),
        created_ns=int(said["created_ns"]),
        is_live=True,
        find_url=lambda: url,
        open=lambda: LiveRun(url),
    )


class RecorderElsewhereError(TraceError):
    """The server answers, but not the recorder beside it."""


class ServerStartingError(TraceError):
    """The server answers, but has not loaded its model yet."""

    def __init__(self, url: str) -> None:
        super().__init__(f"{url} is still loading its model: ask again when it serves")
        self.url = url


def _no_recorder(url: str, health: dict[str, Any]) -> TraceError:
    """What there is instead of a recorder, by the answer about its health; empty: nothing."""
    if health.get("status") == "starting":
        return ServerStartingError(url)
    return _elsewhere(url) if health else _nothing_there(url)


def _elsewhere(url: str) -> RecorderElsewhereError:
    host = httpx.URL(url).host
    there = "THAT-MACHINE" if host == "127.0.0.1" else host
    return RecorderElsewhereError(
        f"{url} serves, but what it records is told only on its own machine and to its own user. "
        "There, `cutaway top` finds it. From here: `url` in the run's recorder.json there names the "
        f"recorder's port; `ssh -L 9000:127.0.0.1:PORT {there}`, then `cutaway top localhost:9000`"
    )


def _nothing_there(url: str) -> TraceError:
    return TraceError(
        f"{url} is neither a server of this machine nor a recorder: `cutaway top` alone finds the "
        "server by itself, and `cutaway trace ls` lists recorded runs"
    )


def _ask(url: str) -> dict[str, Any]:
    """The answer, or, of a server that is not ready (503), what it says of itself; empty: neither.

    Raises TraceError if there is none in time.
    """
    try:
        answer = httpx.get(url, timeout=PATIENCE_SECONDS, trust_env=False)
        said = answer.json()
    except httpx.TimeoutException as error:
        raise TraceError(f"{url} does not answer within {PATIENCE_SECONDS:g} s") from error
    except (httpx.HTTPError, ValueError):
        return {}
    return said if answer.status_code in (200, 503) and isinstance(said, dict) else {}
