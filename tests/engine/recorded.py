"""A trace that stays in memory, for tests of what is written down."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tracing.layout import FIELDS
from tracing.record import NULL, Kind, Recorder
from tracing.spool import Block, parse_blocks

OFFSET_NS = 1_700_000_000_000_000_000
"""Wall time minus clock, in this trace."""


class FileSink:
    """Appends blocks to a file, for a process that a test can only look at from outside."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, block: bytes) -> bool:
        with self.path.open("ab") as file:
            file.write(block)
        return True

    def new_segment(self) -> bool:
        return False


def make_file_recorder(path: Path) -> Recorder:
    """A core's recorder; picklable with functools.partial."""
    return Recorder(FileSink(path), role="core", proc_id=9, engine_id=0)


def parse_records(data: bytes, kind: Kind) -> list[dict[str, Any]]:
    """Records of one kind as dicts; NULL is None, a text is in `text`, a repeated tail in `tail`."""
    found = []
    for block in parse_blocks(data, 0):
        assert isinstance(block, Block)
        for number, _, fields, text in block.records():
            if number == kind:
                names = FIELDS[kind]
                tail = fields[len(names) - 1 :] if names[-1].startswith("...") else None
                named = dict(zip(names, fields, strict=False))
                row = {k: None if v == NULL else v for k, v in named.items()}
                found.append(row | {"text": text, "tail": tail})
    return found


class MemorySink:
    """Keeps the blocks."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, block: bytes) -> bool:
        self.data += block
        return True

    def new_segment(self) -> bool:
        return False


@dataclass
class MemoryTrace:
    """What `tracing.start` would give, without files."""

    record_tokens: bool = True
    epoch_offset_ns: int = OFFSET_NS
    tracer_provider: TracerProvider = field(default_factory=TracerProvider)
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)
    sinks: dict[str, MemorySink] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def recorder(self, role: str) -> Recorder:
        sink = self.sinks[role] = MemorySink()
        return Recorder(sink, role=role, proc_id=len(self.sinks), record_tokens=self.record_tokens)

    def records(self, kind: Kind, role: str = "api") -> list[dict[str, Any]]:
        """Records of one kind, as `parse_records` gives them."""
        return parse_records(self.sinks[role].data, kind)

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        """Ended spans, of one name or all."""
        ended = self.exporter.get_finished_spans()
        return [span for span in ended if name is None or span.name == name]
