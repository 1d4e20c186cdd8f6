"""Run folders for tests of the tracing side."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tracing.ingest import Ingest
from tracing.record import Level, Recorder
from tracing.runs import RunInfo
from tracing.spool import MAX_SEGMENT_BYTES, SpoolWriter
from tracing.store import Store


@dataclass
class RunFolder:
    """A run without a recorder process: spools are written, and read into tables when asked."""

    path: Path
    info: RunInfo = field(default_factory=lambda: RunInfo.new(tokens_recorded=True))
    recorders: list[tuple[Recorder, SpoolWriter]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path.mkdir(exist_ok=True)
        self.info.save(self.path)

    def recorder(
        self,
        role: str = "core",
        *,
        level: Level = Level.KERNELS,
        max_segment_bytes: int = MAX_SEGMENT_BYTES,
        record_tokens: bool = True,
    ) -> Recorder:
        """A recorder of this run, as `tracing.attach` makes it."""
        sink = SpoolWriter(self.path, self.info.run_id, role, max_segment_bytes=max_segment_bytes)
        recorder = Recorder(
            sink,
            role=role,
            proc_id=sink.proc_id,
            engine_id=sink.proc_id - 2 if role == "core" else None,
            level=level,
            record_tokens=record_tokens,
            hash_key=b"test key",
            pid=1,
        )
        self.recorders.append((recorder, sink))
        return recorder

    def close_writers(self, *, goodbye: bool = True) -> None:
        """All processes end, cleanly or as if killed."""
        for recorder, sink in self.recorders:
            if goodbye:
                recorder.close()
            sink.close()
        self.recorders.clear()

    def finished_store(self) -> Store:
        """The tables of the whole run. Whoever asks closes it."""
        self.close_writers()
        store = Store.writable(self.path)
        Ingest(self.path, self.info, store).finish()
        return store


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    """A fresh run."""
    run = RunFolder(tmp_path / "run")
    yield run
    run.close_writers(goodbye=False)
