"""The spool: an append-only file between who records and who reads, and what makes it safe.

The writer appends one block per step with one `write`, and never waits for anybody; the page cache keeps
what was written even if either process is killed. The reader trusts nothing: a block counts only if its
checksum fits, so a torn tail and a flipped bit are seen, counted and stepped over.

    segment file `<proc>-<n>.spool`: header 64 B | block | block | ...          (a new one at 64 MiB)
    block: magic u32, crc32 u32 over all that follows, num_words u32, blob_bytes u32, first_seq u64,
           num_records u32, flags u16, dropped u16 | i64 words | texts, padded to 8 B     (little-endian)

What a reader meets at an offset:
    a whole block        it is given out
    *incomplete*         the rest of the file is no whole block: wait, while the writer lives
    *torn*               the same, when the writer is gone: counted, the file stays as it is
    *corrupt*            no block here, but a whole one further on (the 8-byte grid is searched): go there

Invariant: a segment appears under its name locked and with its header; the lock (flock) is held as long as
its writer lives, however it dies.
Source: record layout and block header of `tracing.layout`; implements the `Sink` of `tracing.record`.
"""

import fcntl
import os
import time
import uuid
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from struct import Struct

from tracing.layout import BLOCK_HEADER, BLOCK_MAGIC, FIELDS, FLAG_REPEATED, Kind

SEGMENT_HEADER = Struct("<8sHHI16sqq16x")
"""Magic, format, proc, segment, run id, monotonic ns, epoch ns."""
SEGMENT_MAGIC = b"CUTSPOOL"
MAX_SEGMENT_BYTES = 64 * 2**20
PREFERRED_PROC = {"api": 1, "core": 2}
"""Fixed ids of the usual two; everybody else takes the next free one."""
_READ_BYTES = 4 * 2**20
_FIELDS = {int(kind): names for kind, names in FIELDS.items()}

Record = tuple[int, int, list[int], bytes]
"""(kind, seq, fields as in `FIELDS`, text)."""


class SpoolWriter:
    """Appends blocks to this process's segments; the `Sink` of a `Recorder`.

    Claims a process id that is free in the run: the role's own (`PREFERRED_PROC`), else the next from 3 on.
    Raises OSError if the run folder cannot be written; afterwards it never raises.
    """

    def __init__(
        self, run_dir: Path, run_id: str, role: str, *, max_segment_bytes: int = MAX_SEGMENT_BYTES
    ) -> None:
        self._run_dir = run_dir
        self._run_id = uuid.UUID(run_id).bytes
        self._max_bytes = max_segment_bytes
        self._segment = 0
        self._size = SEGMENT_HEADER.size
        preferred = PREFERRED_PROC.get(role)
        for proc_id in chain([preferred] if preferred else [], count(3)):
            self.proc_id = proc_id
            try:
                self._fd = self._create(0)
                return
            except FileExistsError:
                continue  # a life of this role before us, or somebody faster

    def write(self, block: bytes) -> bool:
        """Append one block; False if the disk would not take it, and then nothing of it is left behind."""
        try:
            if os.write(self._fd, block) == len(block):
                self._size += len(block)
                return True
            os.ftruncate(self._fd, self._size)  # half a block went in before the disk was full
        except OSError:
            self._size = self._max_bytes  # whatever is there now: go on in a fresh segment
        return False

    def new_segment(self) -> bool:
        """Roll to the next file if this one is full; True if that happened."""
        if self._size < self._max_bytes:
            return False
        try:
            fd = self._create(self._segment + 1)
        except OSError:
            return False  # no room for another file: write on in this one
        os.close(self._fd)
        self._fd, self._segment, self._size = fd, self._segment + 1, SEGMENT_HEADER.size
        return True

    def close(self) -> None:
        """Let go of the file and its lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        """The file goes with its writer, so nobody has to remember to close it."""
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    def _create(self, segment: int) -> int:
        """Make a segment that is locked and has its header before anyone can see its name."""
        path = segment_path(self._run_dir, self.proc_id, segment)
        draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            clocks = time.perf_counter_ns(), time.time_ns()
            header = SEGMENT_HEADER.pack(
                SEGMENT_MAGIC, 1, self.proc_id, segment, self._run_id, *clocks
            )
            os.write(fd, header)
            os.link(draft, path)  # unlike a rename, refuses a name that is taken
        except OSError:
            os.close(fd)
            raise
        finally:
            os.unlink(draft)
        return fd


@dataclass(frozen=True, slots=True)
class Block:
    """One whole block: what its writer packed at once."""

    offset: int
    end: int
    first_seq: int
    num_records: int
    repeated: bool
    """Definitions again, for readers that start here; its records take no seq."""
    dropped: int
    """Records that the writer lost right before it."""
    words: "array[int]"
    blob: bytes

    @property
    def end_seq(self) -> int:
        """The sequence number after the block's last record."""
        if self.repeated:
            return self.first_seq
        seq, at = self.first_seq, 0
        while at < len(self.words):
            kind, length = self.words[at] & 0xFF, self.words[at] >> 8
            seq += num_seq(kind, length - 1)
            at += length
        return seq

    def records(self) -> Iterator[Record]:
        """The block's records in order; kinds that this version does not know are left out."""
        words, seq, at, text_at = self.words, self.first_seq, 0, 0
        while at < len(words):
            kind, length = words[at] & 0xFF, words[at] >> 8
            fields = words[at + 1 : at + length].tolist()
            at += length
            names = _FIELDS.get(kind)
            if names is not None:
                text = b""
                if names[-1] == "blob_bytes":
                    text = self.blob[text_at : text_at + fields[-1]]
                    text_at += fields[-1]
                yield kind, seq, fields, text
            if not self.repeated:
                seq += num_seq(kind, len(fields))


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are no block, with a whole block after them."""

    offset: int
    end: int


class SegmentReader:
    """Reads one segment file from the front, as far as whole blocks go."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = SEGMENT_HEADER.size
        """Everything before it has been given out."""
        self._fd = os.open(path, os.O_RDONLY)
        header = os.pread(self._fd, SEGMENT_HEADER.size, 0)
        self.is_readable = header[: len(SEGMENT_MAGIC)] == SEGMENT_MAGIC
        """False: somebody else's file, or one cut off inside its header."""
        self.started_ns = SEGMENT_HEADER.unpack(header)[5] if self.is_readable else 0
        """Monotonic time of the segment's begin."""

    def poll(self) -> Iterator[Block | Damage]:
        """What is whole by now, from `offset` on. May end before the file does."""
        want = _READ_BYTES
        while self.pending and self.is_readable:
            data = os.pread(self._fd, want, self.offset)
            start = self.offset
            for item in parse_blocks(data, start):
                self.offset = item.end
                yield item
            if len(data) < want:
                return  # seen to the end of the file
            want = (
                _READ_BYTES if self.offset > start else 2 * want
            )  # a block larger than the window

    @property
    def pending(self) -> int:
        """Bytes that lie after the last whole block."""
        return max(0, os.fstat(self._fd).st_size - self.offset)

    def writer_lives(self) -> bool:
        """Whether the process that writes this segment still holds its lock."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


def segment_path(run_dir: Path, proc_id: int, segment: int) -> Path:
    """Where a process's n-th segment lies."""
    return run_dir / f"{proc_id}-{segment}.spool"


def find_procs(run_dir: Path) -> list[int]:
    """Process ids that have a first segment in this run."""
    names = (name for name in os.listdir(run_dir) if name.endswith("-0.spool"))
    return sorted(int(name[:-8]) for name in names if name[:-8].isdigit())


def parse_blocks(data: bytes, base: int) -> Iterator[Block | Damage]:
    """Blocks in `data`, which lies at file offset `base`; stops where no further whole block follows."""
    at = 0
    while at < len(data):
        block = _block_at(data, at, base)
        if block is None:
            found = _next_block(data, at + 8, base)
            if found is None:
                return
            yield Damage(base + at, found.offset)
            block = found
        yield block
        at = block.end - base


def num_seq(kind: int, num_fields: int) -> int:
    """How many sequence numbers a record takes: one per element of a run, else one."""
    match kind:
        case Kind.BLOCKS:
            return num_fields - 5
        case Kind.KERNELS:
            return num_fields - 4  # n launches have n + 1 marks
        case _:
            return 1


def _block_at(data: bytes, at: int, base: int) -> Block | None:
    """The whole, undamaged block at this place, if there is one."""
    if at + BLOCK_HEADER.size > len(data):
        return None
    magic, crc, num_words, blob_bytes, first_seq, num_records, flags, dropped = (
        BLOCK_HEADER.unpack_from(data, at)
    )
    body = at + BLOCK_HEADER.size
    text, end = body + 8 * num_words, body + 8 * num_words + blob_bytes
    if magic != BLOCK_MAGIC or end > len(data):
        return None
    if zlib.crc32(memoryview(data)[at + 8 : end]) != crc:
        return None
    words = array("q")
    words.frombytes(data[body:text])
    repeated = bool(flags & FLAG_REPEATED)
    return Block(
        *(base + at, base + end, first_seq, num_records, repeated, dropped),
        words=words,
        blob=data[text:end],
    )


def _next_block(data: bytes, at: int, base: int) -> Block | None:
    """The next whole block from here on, on the 8-byte grid."""
    magic = BLOCK_MAGIC.to_bytes(4, "little")
    while (at := data.find(magic, at)) >= 0:
        block = _block_at(data, at, base) if at % 8 == 0 else None
        if block is not None:
            return block
        at += 1
    return None
