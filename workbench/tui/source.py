"""Which run is meant: nothing (a server on this machine), a URL, or a run by name.

    cutaway top                        the newest server here that records
    cutaway top http://127.0.0.1:8000  that server, or its recorder's own address
    cutaway top last | NAME | FOLDER   a recorded run; one that is still being recorded is followed

Invariant: a live source can be found anew at any time, because servers restart under other ports and
other runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tracing.errors import TraceError
from tracing.reader import LiveRun, Run, open_run, try_live
from tracing.runs import RunInfo, find_run, recorder_url
from workbench.servers import RunningServer, running_servers

PATIENCE_SECONDS = 5.0


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
        return _of_url(target.rstrip("/"))
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


def _of_url(url: str) -> Source:
    for server in running_servers():
        if server.url == url:
            if server.run_dir is None:
                raise TraceError(
                    f"{url} records nothing: start it with a trace level other than off"
                )
            return of_server(server)
    said = _ask(f"{url}/run")
    if said is None or "created_ns" not in said:
        raise TraceError(
            f"{url} is neither a server of this machine nor a recorder: `cutaway top` alone finds the "
            "server by itself, and `cutaway trace ls` lists recorded runs"
        )
    return Source(
        title=url.removeprefix("http://"),
        created_ns=int(said["created_ns"]),
        is_live=True,
        find_url=lambda: url,
        open=lambda: LiveRun(url),
    )


def _ask(url: str) -> dict[str, Any] | None:
    try:
        answer = httpx.get(url, timeout=PATIENCE_SECONDS, trust_env=False)
        said: dict[str, Any] = answer.json()
    except (httpx.HTTPError, ValueError):
        return None
    return said if answer.status_code == 200 and isinstance(said, dict) else None
