"""From spool files to tables, exactly once, whoever is killed when.

The tables and the offsets up to which they reach change in one transaction. A recorder that starts where
another one died folds every spool again from its first byte, because the fold needs the history (who holds
which block, when the last token came), and throws away the rows that the tables have already. That works
because a fold is a pure function of one process's spool (`tracing.fold`).

    spool 1-0 |=======|====        spool 2-0 |==========|=====      = read again for its state, rows dropped
                      ^ committed                       ^           then: rows kept, committed every so often

Invariant: a row is in the tables exactly if its block ends at or before its file's committed offset.
"""

from dataclasses import dataclass
from pathlib import Path

from tracing.codes import Code
from tracing.fold import Fold
from tracing.rows import Row, Rows
from tracing.runs import RunInfo
from tracing.spool import Block, Damage, SegmentReader, find_procs, segment_path
from tracing.store import Position, Store
from tracing.stream import Stream

MAX_BATCH_ROWS = 20_000
_NOTHING = Position(0, 0, False)


@dataclass(slots=True)
class _Series:
    """One process's segments, the fold of them, and how far both have come."""

    proc_id: int
    fold: Fold
    reader: SegmentReader
    segment: int
    lost: int = 0
    """In this segment."""
    torn: int = 0
    damaged_at: int | None = None
    """Damage was met there, and the next block says how much is missing."""

    @property
    def key(self) -> tuple[int, int]:
        """Names the segment in table ingest."""
        return self.proc_id, self.segment

    def position(self, *, sealed: bool) -> Row:
        """The row of table ingest."""
        return (*self.key, self.reader.offset, self.lost, self.torn, sealed)


class Ingest:
    """Reads all spools of a run into its store. Not thread-safe: one caller at a time."""

    def __init__(
        self, run_dir: Path, info: RunInfo, store: Store, stream: Stream | None = None
    ) -> None:
        """`stream` gets every row that the tables get, before they do."""
        self._run_dir, self._info, self._store = run_dir, info, store
        self._stream = stream
        self._series: dict[int, _Series] = {}
        self._committed = store.positions()
        self.is_sealed = any(position.sealed for position in self._committed.values())
        """The tables are complete: a recorder before us died after its last commit."""
        self._rows = Rows()
        self._moved: dict[tuple[int, int], Row] = {}
        """Positions that have changed since the last commit."""

    def poll(self) -> bool:
        """Read what is there now; commits by itself when much has gathered. False if there was nothing."""
        found = False
        for proc_id in find_procs(self._run_dir):
            if proc_id not in self._series:
                self._open(proc_id)
            found |= self._poll_series(self._series[proc_id])
        return found

    def commit(self) -> None:
        """Put what was read into the tables."""
        if self._moved:
            self._store.commit(self._rows.take(), list(self._moved.values()))
            self._moved = {}

    def catch_up(self) -> None:
        """Read and commit until there is nothing more right now."""
        while self.poll():
            pass
        self.commit()

    def writers_live(self) -> bool:
        """Whether any process may still write: it has neither said goodbye nor died."""
        unread = set(find_procs(self._run_dir)) - set(self._series)
        return bool(unread) or any(self._lives(series) for series in self._series.values())

    def finish(self) -> None:
        """Read to the end, write what was left open, and complete the tables."""
        if self.is_sealed:
            return
        self.catch_up()
        for series in self._series.values():
            self._count_torn(series)
            series.fold.end()
            self._keep(series.fold.take())
        end_ns = max((s.fold.last_ns for s in self._series.values()), default=0)
        end_ns = max(end_ns, self._info.created_ns)
        clean = all(series.fold.is_closed for series in self._series.values())
        outcome = (Code.RUN_END, None, None, int(clean), None, None, None)
        self._rows.add("event", (None, None, None, end_ns, *outcome))
        if not self._rows.tables.get("run") and not self._store.has_run_row():
            unknown = (None, None, None, None, self._info.tokens_recorded, None, None)
            self._rows.add("run", (*self._run_columns()[:4], *unknown))
        positions = [series.position(sealed=True) for series in self._series.values()]
        self._store.commit(self._rows.take(), positions, sealed_at_ns=end_ns)
        self.is_sealed = True

    # -- inside ----------------------------------------------------------------------------------

    def _open(self, proc_id: int) -> None:
        reader = SegmentReader(segment_path(self._run_dir, proc_id, 0))
        fold = Fold(
            proc_id,
            started_ns=reader.started_ns,
            offset_ns=self._info.epoch_offset_ns,
            run=self._run_columns(),
        )
        self._series[proc_id] = _Series(proc_id, fold, reader, 0)

    def _lives(self, series: _Series) -> bool:
        """Its lock is held, or it has gone on to a segment that is not read yet."""
        if series.fold.is_closed:
            return False
        return series.reader.writer_lives() or self._following(series).exists()

    def _following(self, series: _Series) -> Path:
        return segment_path(self._run_dir, series.proc_id, series.segment + 1)

    def _poll_series(self, series: _Series) -> bool:
        """Read one process's segments as far as they go."""
        found = False
        while True:
            following = self._following(series)
            is_full = (
                following.exists()
            )  # asked first: what is read afterwards is all of the segment
            for item in series.reader.poll():
                found = True
                if isinstance(item, Damage):
                    series.damaged_at = item.offset
                else:
                    self._fold(series, item)
            if not is_full:
                return found
            self._count_torn(series)
            self._moved[series.key] = series.position(sealed=False)
            series.reader.close()
            series.reader, series.segment = SegmentReader(following), series.segment + 1
            series.lost = series.torn = 0

    def _fold(self, series: _Series, block: Block) -> None:
        """Fold a block, keeping its rows unless the tables have them already."""
        lost = series.fold.read(block)
        series.lost += lost
        rows = series.fold.take()
        damaged_at, series.damaged_at = series.damaged_at, None
        if block.end <= self._committed.get(series.key, _NOTHING).offset:
            return
        self._keep(rows)
        if damaged_at is not None:
            self._note(series, Code.SPOOL_CORRUPT, series.segment, damaged_at, lost)
        elif lost:
            self._note(series, Code.RECORDS_DROPPED, lost, 1)
        self._moved[series.key] = series.position(sealed=False)
        if len(self._rows) >= MAX_BATCH_ROWS:
            self.commit()

    def _count_torn(self, series: _Series) -> None:
        """At the end of a segment: what was never completed."""
        series.torn = series.reader.pending
        if series.torn > self._committed.get(series.key, _NOTHING).torn:
            self._note(series, Code.SPOOL_TORN, series.segment, series.torn)

    def _note(self, series: _Series, code: Code, *args: int) -> None:
        """An event that nobody wrote: the recorder saw it."""
        at = max(series.fold.last_ns, self._info.created_ns)
        four = args + (None,) * (4 - len(args))
        self._keep(Rows({"event": [(None, series.proc_id, None, at, code, None, None, *four)]}))

    def _keep(self, rows: Rows) -> None:
        """Rows for the tables, and for those who watch."""
        self._rows.extend(rows)
        if self._stream is not None:
            self._stream.add(rows)

    def _run_columns(self) -> tuple[object, ...]:
        """The columns of table run that run.json knows: id, format, clock, begin, tokens recorded."""
        info = self._info
        return (info.run_id, info.format, "wall", info.created_ns, info.tokens_recorded)
