"""Facts of the engine -> spool -> recorder -> tables, and the ways to ask them.

    tracing.record      what the engine calls; standard library only, and all that it may import
    tracing.start       record a run        tracing.attach      join it from another process
    tracing.open_run    ask one             tracing.list_runs   what there is

Read on in the order in which a fact travels: record, spool, fold (and fold_kv, kv_mirror), ingest, store,
recorder, serve, reader, clerk; `schema.sql` says what comes out.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from tracing.errors import TraceError
from tracing.recording import Participant, Recording, RunHandle, attach, start
from tracing.runs import RunInfo, list_runs

if TYPE_CHECKING:
    from tracing.reader import Run

__all__ = [
    "Participant",
    "Recording",
    "RunHandle",
    "RunInfo",
    "TraceError",
    "attach",
    "list_runs",
    "open_run",
    "start",
]


def open_run(run: "str | Path") -> "Run":
    """Open a run by folder, name, unique start of its name, or `last`; raises TraceError with advice.

    Imports what it needs only now: the engine imports this package too, and needs none of it.
    """
    from tracing.reader import open_run as open_

    return open_(run)
