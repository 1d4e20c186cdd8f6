"""Where free questions are put: two clerks, each a process that its limits end (`tracing.clerk`).

    POST /data/runs/{run}/download     rows of one SELECT as a file
    POST /data/asked/{asker}/stop      nobody waits for this asker's answer any more

Free are the SQL page and its downloads; everything else the screens ask is our own text and goes to the run
itself. Two may be answered at once and a few wait; whoever asks anew, leaves the page or presses stop is not
answered any more, and his clerk is free again.

Invariant: no thread that lays out pages ever waits for a free question.
"""

import asyncio
import csv
import io
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from tracing.clerk import Clerk
from tracing.errors import PutAside, TraceError
from tracing.parquet import parquet_bytes
from tracing.result import Result
from tracing.store import MAX_ROWS
from workbench.web.library import Library

NUM_CLERKS = 2
MAX_WAITING = 8


class Busy(TraceError):
    """Too many questions wait already."""

    key = "busy"


@dataclass(slots=True)
class _Asked:
    """One question of somebody."""

    asker: str
    run_dir: Path
    text: str
    limit: int
    answer: "Future[Result]"
    clerk: Clerk | None = None
    """Who answers it; None while it waits."""
    is_wanted: bool = True


class Desk:
    """Takes questions from the event loop; two threads pass them on, each to a clerk of its own."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[_Asked] = SimpleQueue()
        self._asked: list[_Asked] = []
        """Those that somebody waits for."""
        self._lock = threading.Lock()
        for _ in range(NUM_CLERKS):  # they end with the process, whatever is asked then
            threading.Thread(target=self._work, name="desk", daemon=True).start()

    async def ask(
        self, run_dir: Path, text: str, *, asker: str = "", limit: int = MAX_ROWS
    ) -> Result:
        """One SELECT, EXPLAIN or DESCRIBE; the asker's question before is put aside. Raises TraceError."""
        self.stop(asker)
        asked = _Asked(asker, run_dir, text, limit, Future())
        with self._lock:
            if len(self._asked) >= NUM_CLERKS + MAX_WAITING:
                raise Busy(f"{len(self._asked)} questions wait already: try again in a moment")
            self._asked.append(asked)
        self._waiting.put(asked)
        try:
            return await asyncio.wrap_future(asked.answer)
        finally:
            with self._lock:
                self._asked = [other for other in self._asked if other is not asked]

    def stop(self, asker: str) -> None:
        """Put aside what this asker wants to know."""
        with self._lock:
            mine = [asked for asked in self._asked if asker and asked.asker == asker]
            for asked in mine:
                asked.is_wanted = False  # before the clerk looks: then it need not be asked at all
                if asked.clerk is not None:
                    asked.clerk.stop()
                elif asked.answer.set_running_or_notify_cancel():
                    asked.answer.set_exception(PutAside("put aside: nobody waits for the answer"))

    def _work(self) -> None:
        """Answer what waits, one after the other."""
        clerk = Clerk()
        while True:
            asked = self._waiting.get()
            with self._lock:
                if asked.answer.done() or not asked.answer.set_running_or_notify_cancel():
                    continue
                asked.clerk = clerk
            try:
                asked.answer.set_result(_put(asked, clerk))
            except Exception as error:  # whoever asked is told, and the next one served
                asked.answer.set_exception(error)
            with self._lock:
                asked.clerk = None


def _put(asked: _Asked, clerk: Clerk) -> Result:
    """Ask the clerk. Raises TraceError."""
    return clerk.ask(
        asked.run_dir, asked.text, limit=asked.limit, is_wanted=lambda: asked.is_wanted
    )


class Wanted(BaseModel):
    """Body of a download: one SELECT, and the kind of file."""

    sql: str
    format: Literal["csv", "parquet"]


def desk_routes(library: Library, desk: Desk) -> APIRouter:
    """The routes to this desk."""
    router = APIRouter(prefix="/data")

    @router.post("/runs/{run}/download")
    async def download(run: str, wanted: Wanted) -> Response:
        run_dir, _ = await asyncio.to_thread(library.find, run)
        result = await desk.ask(run_dir, wanted.sql)
        body, kind = await asyncio.to_thread(_as_file, result, wanted.format)
        name = f'attachment; filename="rows.{wanted.format}"'
        return Response(body, media_type=kind, headers={"content-disposition": name})

    @router.post("/asked/{asker}/stop")
    def stop(asker: str) -> Response:
        desk.stop(asker)
        return Response(status_code=204)

    return router


def _as_file(result: Result, kind: str) -> tuple[bytes, str]:
    """Rows as a file's bytes, and its media type."""
    if kind == "parquet":
        return parquet_bytes(result), "application/vnd.apache.parquet"
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(result.columns)
    writer.writerows(result.rows)
    return out.getvalue().encode(), "text/csv; charset=utf-8"
