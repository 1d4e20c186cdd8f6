"""The recording interface: what the engine calls, and what it costs when nobody listens.

The hot loop must not build spans (25-40 us each); it appends integers to one flat list (about 1 us a fact)
and once a step packs that list into one block of bytes for the sink (`tracing.spool`). A recorder process
turns the blocks into spans and tables later. Only the standard library is used here, so the engine can
import this module and nothing else of `tracing`. What a record looks like is said in `tracing.layout`.

Invariants: every record takes a sequence number (a run of blocks or launches takes one per element), so
`span_id = span_base + seq` exists before any span does, and a gap in seq is a counted loss. A method called
below its level returns at once. Nothing here ever blocks or raises into the engine.

Facts outside a step (an abort, an arrival) belong to the step scheduled next.
"""

import json
import random
import time
import zlib
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from tracing.codes import Code
from tracing.layout import (
    BLOCK_HEADER,
    BLOCK_MAGIC,
    DICT_KINDS,
    FIELDS,
    FLAG_REPEATED,
    NULL,
    Kind,
    Level,
    Mode,
    Phase,
)

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["NULL", "Code", "Kind", "Level", "Mode", "Phase", "Recorder", "Sink", "Trace"]


class Sink(Protocol):
    """Where blocks of records go: a spool segment, or nowhere."""

    def write(self, block: bytes) -> bool:
        """Append one block; never raises. Returns False if it was dropped (disk full)."""

    def new_segment(self) -> bool:
        """True once after the sink rolled to another segment: definitions are repeated at its start."""


class Trace(Protocol):
    """A recording in progress: what `tracing.start` returns and the engine is given."""

    def recorder(self, role: str) -> "Recorder":
        """The recorder of this process in that role (`core`, `api`), one spool series each."""

    @property
    def tracer_provider(self) -> "TracerProvider":
        """OpenTelemetry provider for request-level spans; they land in the `api` spool."""

    @property
    def epoch_offset_ns(self) -> int:
        """Wall time minus the recorders' clock: spans carry epoch nanoseconds, records the clock's own."""


class Recorder:
    """Integer records of one process in one role.

    `proc_id` is unique in the run, `engine_id` numbers the life of an engine core (None: front end).
    `hash_key` is drawn per run and never stored, so that hashes in a trace cannot be matched to text.
    """

    def __init__(
        self,
        sink: Sink | None,
        *,
        role: str = "core",
        proc_id: int = 0,
        engine_id: int | None = None,
        level: Level = Level.KERNELS,
        record_tokens: bool = False,
        hash_key: bytes = b"",
        pid: int = 0,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.sink = sink
        self.level = level if sink is not None else Level.OFF
        self.record_tokens = record_tokens
        self.proc_id = proc_id
        self.engine_id = engine_id
        self.clock = clock
        self.is_described = False
        """An engine has said what it is: it owns this recorder's steps and request ids."""
        self.span_base = random.SystemRandom().randrange(2**62, 2**63 - 2**48)
        self.trace_id = random.SystemRandom().getrandbits(128)
        self._hash_key = hash_key
        self._words: list[int] = []
        self._blobs: list[bytes] = []
        self._first_seq = self._seq = 0
        self._num_records = 0
        self._dropped = self._dropped_total = 0
        self._ids: dict[tuple[int, str], int] = {}
        self._templates: dict[tuple[tuple[int, int], ...], int] = {}
        self._definitions: list[tuple[list[int], bytes]] = []
        self._second: list[int] | None = None
        if sink is not None:
            hello = json.dumps({"role": role}).encode()
            hi, lo = self.trace_id >> 64, self.trace_id & (2**64 - 1)
            fields = [proc_id, NULL if engine_id is None else engine_id, pid, self.span_base]
            self._define(Kind.HELLO, [*fields, _signed(hi), _signed(lo), level, len(hello)], hello)
            self.clock_anchor()

    # -- steps -----------------------------------------------------------------------------------

    def begin_step(self, step: int, start_ns: int) -> None:
        """Name the step that the following records belong to."""
        if self.level >= Level.STEPS:
            self._put(Kind.CTX, (step, start_ns))

    def end_step(self, **columns: int) -> None:
        """Write the step's own record (all of `FIELDS[Kind.STEP]` but level), last of its records."""
        if self.level >= Level.STEPS:
            columns["level"] = self.level
            self._put(Kind.STEP, tuple(columns[name] for name in FIELDS[Kind.STEP]))
        elif self.level >= Level.METRICS:
            self._count_second(columns)
        self.flush()

    def row(self, fields: Sequence[int]) -> None:
        """One sequence's part in the step, fields as in `FIELDS[Kind.ROW]`."""
        if self.level >= Level.STEPS:
            self._put(Kind.ROW, fields)

    def decision(
        self, code: Code, request_id: int | None, *args: int, other: int | None = None
    ) -> None:
        """Why something was decided: about whom, up to four integers, and who caused it."""
        if self.level >= Level.STEPS:
            a = args + (NULL,) * (4 - len(args))
            who = NULL if request_id is None else request_id
            self._put(
                Kind.DECISION, (self.clock(), code, who, NULL if other is None else other, *a)
            )

    def event(
        self, code: Code, *args: int, request_id: int | None = None, step: int | None = None
    ) -> None:
        """A fault or a control act (codes 9xx, 10xx); recorded at every level."""
        if self.level >= Level.METRICS:
            a = args + (NULL,) * (4 - len(args))
            who, at = (NULL if x is None else x for x in (request_id, step))
            self._put(Kind.EVENT, (self.clock(), code, who, at, *a))

    # -- KV blocks -------------------------------------------------------------------------------

    def blocks(
        self,
        code: Code,
        block_ids: Sequence[int],
        request_id: int | None,
        *,
        idx: int | None = None,
        other: int | None = None,
    ) -> None:
        """Blocks given out, shared, let go or evicted, in queue order; idx: the first one's table place."""
        if self.level >= Level.BLOCKS and block_ids:
            who, oth, at = (NULL if x is None else x for x in (request_id, other, idx))
            fields = (self.clock(), code, who, oth, at, *block_ids)
            self._put(Kind.BLOCKS, fields, num_seq=len(block_ids))

    def cached(
        self,
        code: Code,
        block_id: int,
        request_id: int,
        idx: int,
        hash_: bytes,
        parent: bytes | None,
    ) -> None:
        """A full block entered the prefix cache under its chain hash."""
        if self.level >= Level.BLOCKS:
            node, up = self.mask(hash_), 0 if parent is None else self.mask(parent)
            self._put(Kind.CACHED, (self.clock(), code, request_id, block_id, idx, node, up))

    def node(
        self, code: Code, state: Sequence[int], request_id: int | None, other: int | None = None
    ) -> None:
        """A radix node was made, cut, used or evicted; state: fields of `Kind.NODE` from node_id on."""
        if self.level >= Level.BLOCKS:
            who, oth = (NULL if x is None else x for x in (request_id, other))
            self._put(Kind.NODE, (self.clock(), code, who, oth, *state))

    def mask(self, hash_: bytes) -> int:
        """63-bit keyed hash of a block hash: comparable inside one run, meaningless outside it."""
        return int.from_bytes(blake2b(hash_, digest_size=8, key=self._hash_key).digest()) >> 1

    # -- tokens and kernels ------------------------------------------------------------------------

    def tokens(self, ts_ns: int, sampled: Iterable[tuple[int, int, int]]) -> None:
        """Sampled tokens as (request, output index, token id); ids are kept only if tokens are recorded."""
        if self.level >= Level.REQUESTS:
            fields = [ts_ns]
            for request_id, k, token_id in sampled:
                fields += (request_id, k, token_id if self.record_tokens else NULL)
            if len(fields) > 1:
                self._put(Kind.TOKENS, fields)

    def kernels(
        self, launches: Sequence[tuple[str, int]], marks_ns: Sequence[int], num_tokens: int
    ) -> None:
        """Kernel launches of one forward pass: n (name, layer) pairs between n + 1 host times in ns."""
        if self.level < Level.KERNELS or not launches:
            return
        key = tuple((self.intern("kernel", name), layer) for name, layer in launches)
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = len(self._templates)
            self._define(Kind.TEMPLATE, [template, *(word for pair in key for word in pair)], b"")
        self._put(Kind.KERNELS, (template, num_tokens, 0, *marks_ns), num_seq=len(launches))

    def rank_step(self, fields: Sequence[int]) -> None:
        """One rank's forward pass in the step, fields as in `FIELDS[Kind.RANK_STEP]`."""
        if self.level >= Level.STEPS:
            self._put(Kind.RANK_STEP, fields)

    # -- requests (front end) ----------------------------------------------------------------------

    def request(self, fields: Sequence[int], *, external_id: str | None, operation: str) -> None:
        """A request arrived; fields as in `FIELDS[Kind.REQUEST]` without blob_bytes."""
        if self.level >= Level.REQUESTS:
            blob = json.dumps({"external_id": external_id, "operation": operation}).encode()
            self._put(Kind.REQUEST, (*fields, len(blob)), blob=blob)

    def request_end(self, fields: Sequence[int]) -> None:
        """A request ended; fields as in `FIELDS[Kind.REQUEST_END]`."""
        if self.level >= Level.REQUESTS:
            self._put(Kind.REQUEST_END, fields)

    def phase(
        self, request_id: int, phase: int, start_ns: int, end_ns: int, first: int, last: int
    ) -> None:
        """One phase of a request's life, half open, with its first and last step (NULL: not in the core)."""
        if self.level >= Level.REQUESTS:
            self._put(Kind.PHASE, (request_id, phase, start_ns, end_ns, first, last))

    def prompt(self, request_id: int, token_ids: Sequence[int]) -> None:
        """The prompt's token ids, only where tokens are recorded."""
        if self.level >= Level.REQUESTS and self.record_tokens:
            self._put(Kind.PROMPT, (request_id, *token_ids))

    def prompt_units(
        self, request_id: int, num_tokens: int, units: Sequence[tuple[bytes, bytes]]
    ) -> None:
        """The prompt's full blocks as (chain hash, the same without salt), to explain cache misses later."""
        if self.level >= Level.BLOCKS:
            masked = (self.mask(h) for pair in units for h in pair)
            self._put(Kind.PROMPT_UNITS, (request_id, num_tokens, *masked))

    def span(self, fields: Sequence[int], body: Mapping[str, object]) -> None:
        """A span of the OpenTelemetry SDK, at its start (end NULL) and at its end."""
        if self.level >= Level.REQUESTS:
            blob = json.dumps(body, default=str).encode()
            self._put(Kind.SPAN, (*fields, len(blob)), blob=blob)

    # -- control -----------------------------------------------------------------------------------

    def describe_run(self, **columns: object) -> None:
        """What only the core knows of the run: policy, cache_kind, block_size, num_blocks, model, config."""
        self.is_described = self.sink is not None
        if self.level >= Level.METRICS:
            blob = json.dumps(columns, default=str).encode()
            self._define(Kind.RUN, [len(blob)], blob)

    def set_level(self, level: Level) -> None:
        """Change the level from now on; the change itself is recorded."""
        if self.sink is None or level == self.level:
            return
        old, self.level = self.level, max(level, Level.METRICS)
        self.event(Code.LEVEL, old, self.level)

    def intern(self, kind: str, text: str) -> int:
        """Small number of a text in this process (`DICT_KINDS`); defined in the spool at first use."""
        number = DICT_KINDS.index(kind)
        found = self._ids.get((number, text))
        if found is None:
            found = self._ids[number, text] = len(self._ids) + 1
            blob = text.encode()
            self._define(Kind.DICT, [number, found, len(blob)], blob)
        return found

    def clock_anchor(self) -> None:
        """Pair this process's monotonic clock with wall time; once at start and about each minute."""
        self._put(Kind.CLOCK, (self.clock(), time.time_ns()))

    def flush(self) -> None:
        """Hand what has gathered to the sink as one block: once a step, and when the core goes idle."""
        if not self._words or self.sink is None:
            return
        if self.sink.new_segment():  # a segment must be readable alone
            words = [word for record, _ in self._definitions for word in record]
            blobs = [blob for _, blob in self._definitions]
            self.sink.write(self._pack(words, blobs, len(self._definitions), FLAG_REPEATED))
        block = self._pack(self._words, self._blobs, self._num_records, 0)
        if self.sink.write(block):
            self._dropped = 0
        else:
            self._dropped += self._num_records
            self._dropped_total += self._num_records
        self._words, self._blobs, self._num_records = [], [], 0
        self._first_seq = self._seq

    def close(self) -> None:
        """Say goodbye, so that a reader can tell a clean end from a crash."""
        if self.sink is not None:
            self._put(Kind.BYE, (self._seq + 1, self._dropped_total))
            self.flush()
            self.sink, self.level = None, Level.OFF

    # -- inside ------------------------------------------------------------------------------------

    def _put(
        self, kind: Kind, fields: Sequence[int], *, num_seq: int = 1, blob: bytes = b""
    ) -> None:
        self._words.append(kind | (len(fields) + 1) << 8)
        self._words.extend(fields)
        if blob:
            self._blobs.append(blob)
        self._seq += num_seq
        self._num_records += 1

    def _define(self, kind: Kind, fields: list[int], blob: bytes) -> None:
        if self.sink is not None:
            self._definitions.append(([kind | (len(fields) + 1) << 8, *fields], blob))
            self._put(kind, fields, blob=blob)

    def _pack(self, words: list[int], blobs: list[bytes], num_records: int, flags: int) -> bytes:
        """Header (magic, crc32 of all that follows, sizes, first seq, losses before it), words, texts."""
        blob = b"".join(blobs)
        blob += bytes(-len(blob) % 8)
        sizes = (len(words), len(blob), self._first_seq, num_records, flags)
        header = BLOCK_HEADER.pack(BLOCK_MAGIC, 0, *sizes, min(self._dropped, 65535))
        body = header[8:] + array("q", words).tobytes() + blob
        return header[:4] + zlib.crc32(body).to_bytes(4, "little") + body

    def _count_second(self, columns: Mapping[str, int]) -> None:
        """Below level 2 steps leave one record a second: enough for throughput and queue curves."""
        start = columns["end_ns"] // 10**9 * 10**9
        if self._second is None or self._second[0] != start:
            if self._second is not None:
                self._put(Kind.SECOND, self._second)
            self._second = [start, 0, 0, 0, 0, 0, 0]
        second, prefill = self._second, columns["num_prefill_tokens"]
        second[1] += 1
        second[2] += prefill
        second[3] += columns["num_tokens"] - prefill - columns["num_draft_tokens"]
        second[4:] = [columns[name] for name in ("num_running", "num_waiting", "used_blocks")]


def _signed(word: int) -> int:
    """An unsigned 64-bit number as the signed one with the same bits."""
    return word - 2**64 if word >= 2**63 else word


NO_RECORDER = Recorder(None)
"""The null recorder: every method returns at once."""
