"""The live stream: what was just recorded, pushed to whoever watches.

    GET /stream?after=CURSOR         Server-Sent Events, JSON data, ids are cursors; `curl -N` shows them
    GET /stream?pace_ms=100          the same events, sent together so often: for those who look no oftener

    event: keyframe   the state to start from; first, unless CURSOR can be continued, and after each gap
    event: frame      rows recorded since the event before
    event: gap        frames that this viewer was too slow for, or that nobody keeps any more
    event: end        the run is complete: nothing will follow, read on from its file
    : alive           a comment, each 2 s in which nothing happens

A viewer that comes back names its cursor, as `?after=` or as the header Last-Event-ID that browsers send by
themselves (the header wins), and goes on behind it. The shapes of `data`:

    keyframe  {"published_ns", "columns": {table: [name, ...]},      `tracing.keyframe`: describe,
               "run": {a row of table run} | null, "state": {...}}    and keyframe_at
    frame     {"published_ns", "first_step", "last_step",             steps completed in it; null: none
               "rows": {table: [[value, ...], ...]}}                  columns: the keyframe has their names
    gap       {"from", "to", "count"}                                 cursors; count: frames, null: not known
    end       {}

Tables in frames are `TABLES`; rows of a core come in the order in which it wrote them, with a step's own row
after all of its others. Who applies rows by their keys may meet one twice: after a keyframe, a request or its
end that the keyframe knew already. published_ns is wall time: how far behind a viewer is. Frames come at most
30 a second; faster steps share one.

All viewers read one ring of encoded frames, each at its own cursor. A slow one falls off its end and is told
(`gap`); nobody waits for it, neither the recorder nor other viewers, and it costs no memory. While nobody
watches, nothing is encoded.

Invariant: keyframe + the frames after it = the state at the last frame, or a gap between them says so.
Place in the step: none; behind the spool, so that not even a full ring is felt by the engine.
"""

import asyncio
import json
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from tracing.rows import Row, Rows

TABLES = (
    *("run", "proc", "request", "request_phase", "request_end", "step", "step_request"),
    *("decision", "kv_event", "cache_event", "token", "event", "second"),
)
"""Tables whose rows are streamed. Kernel launches and spans are too many: ask for them."""
FRAME_SECONDS = 1 / 30
MAX_FRAMES = 128
MAX_BYTES = 4 * 2**20
"""Of the ring; whatever is reached first."""
LINGER_SECONDS = 30.0
"""How long frames are still kept after the last viewer left: it may come back."""
ALIVE_SECONDS = 2.0
ALIVE = b": alive\n\n"

Keyframe = Callable[[], tuple[int, dict[str, Any]]]
"""Reads and commits what is there, then tells the number of the last frame and the state after it."""


class Stream:
    """One thread adds rows and publishes frames; viewers follow in an event loop of another."""

    def __init__(self) -> None:
        self._life = secrets.token_hex(4)
        """Cursors of another recorder's life mean nothing here."""
        self._lock = threading.Lock()
        self._frames: deque[tuple[int, bytes]] = deque()
        self._num_bytes = 0
        self._last = 0
        """Number of the newest frame."""
        self._pending: dict[str, list[Row]] = {}
        self._has_skipped = False
        """Rows were not taken in, because nobody watched."""
        self._wakers: dict[object, Callable[[], Any]] = {}
        self._watched_at = float("-inf")
        self._ended = False

    # -- the thread that records -----------------------------------------------------------------

    @property
    def is_watched(self) -> bool:
        """Whether anybody follows, or did a moment ago."""
        with self._lock:
            return self._keeps()

    def add(self, rows: Rows) -> None:
        """Take in rows for the next frame."""
        told = {table: tuples for table, tuples in rows.tables.items() if table in TABLES}
        if told and not self.is_watched:
            self._has_skipped = True
            return
        for table, tuples in told.items():
            self._pending.setdefault(table, []).extend(tuples)

    def publish(self) -> int:
        """Make a frame of what was added, if anything; returns the number of the newest frame."""
        tables, self._pending = self._pending, {}
        skipped, self._has_skipped = self._has_skipped, False
        if not tables and not skipped:
            return self._last
        with self._lock:
            self._last += 1
            if skipped:  # nobody can go on from before
                self._frames.clear()
                self._num_bytes = 0
            else:
                self._keep(_encode(self._cursor(self._last), "frame", _frame(tables)))
            wakers = list(self._wakers.values())
        for wake in wakers:
            wake()
        return self._last

    def end(self) -> None:
        """The run is sealed: viewers are told, and leave."""
        self.publish()
        with self._lock:
            self._ended = True
            wakers = list(self._wakers.values())
        for wake in wakers:
            wake()

    # -- viewers ---------------------------------------------------------------------------------

    async def follow(
        self, after: str | None, keyframe: Keyframe, *, pace_s: float = 0.0
    ) -> AsyncGenerator[bytes]:
        """Encoded events for one viewer; closing the generator is how it leaves.

        `pace_s`: frames that came within so many seconds of the last ones are sent together.
        """
        awake = asyncio.Event()
        at = None if after is None else self._number(after)
        missed: tuple[str, int | None] | None = None
        """The cursor, and its frame, that nobody can go on from."""
        if after is not None and at is None:
            missed = after, None
        making: asyncio.Task[tuple[int, bytes]] | None = None
        with self._watching(awake):
            while True:
                awake.clear()  # before looking: what comes after the look wakes us again
                frame = None if at is None else self._after(at)
                if at is None:
                    making = making or asyncio.create_task(self._keyframe(keyframe))
                    if not (await asyncio.wait((making,), timeout=ALIVE_SECONDS))[0]:
                        yield ALIVE  # the recorder has much to read before it can tell the state
                        continue
                    at, data = making.result()
                    making = None
                    if missed is not None:
                        cursor, number = missed
                        yield self._gap(cursor, None if number is None else at - number)
                        missed = None
                    yield data
                elif isinstance(frame, bytes):
                    frames = [frame]
                    while isinstance(more := self._after(at + len(frames)), bytes):
                        frames.append(more)
                    at += len(frames)
                    yield b"".join(frames)
                    await asyncio.sleep(pace_s)
                elif frame == "gap":
                    missed, at = (self._cursor(at), at), None
                elif self._ended:
                    yield _encode(None, "end", {})
                    return
                else:
                    try:
                        await asyncio.wait_for(awake.wait(), ALIVE_SECONDS)
                    except TimeoutError:
                        yield ALIVE

    @contextmanager
    def _watching(self, awake: asyncio.Event) -> Any:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(awake.set)

        with self._lock:
            self._wakers[awake] = wake
        try:
            yield
        finally:
            with self._lock:
                del self._wakers[awake]
                self._watched_at = time.monotonic()

    async def _keyframe(self, keyframe: Keyframe) -> tuple[int, bytes]:
        """Made in a thread of its own: other viewers go on meanwhile."""
        number, data = await asyncio.to_thread(keyframe)
        data = {"published_ns": time.time_ns(), **data}
        encode = partial(_encode, self._cursor(number), "keyframe", data)
        return number, await asyncio.to_thread(encode)

    def _after(self, number: int) -> bytes | str | None:
        """The frame behind that one; None: not there yet; "gap": not there any more."""
        with self._lock:
            if number >= self._last:
                return None
            if not self._frames or self._frames[0][0] > number + 1:
                return "gap"
            return self._frames[number + 1 - self._frames[0][0]][1]

    def _number(self, cursor: str) -> int | None:
        """A cursor's frame number; None: of another life, or nonsense."""
        life, _, digits = cursor.partition(".")
        known = life == self._life and digits.isascii() and digits.isdigit()
        return int(digits) if known and int(digits) <= self._last else None

    def _gap(self, start: str, count: int | None) -> bytes:
        to = self._cursor(self._last)
        return _encode(None, "gap", {"from": start, "to": to, "count": count})

    # -- the ring (under the lock) ---------------------------------------------------------------

    def _keeps(self) -> bool:
        return bool(self._wakers) or time.monotonic() - self._watched_at < LINGER_SECONDS

    def _keep(self, data: bytes) -> None:
        self._frames.append((self._last, data))
        self._num_bytes += len(data)
        while len(self._frames) > MAX_FRAMES or self._num_bytes > MAX_BYTES:
            self._num_bytes -= len(self._frames.popleft()[1])

    def _cursor(self, number: int) -> str:
        return f"{self._life}.{number}"


def _frame(tables: dict[str, list[Row]]) -> dict[str, Any]:
    steps = [row[1] for row in tables.get("step", ())]
    return {
        "published_ns": time.time_ns(),
        "first_step": min(steps, default=None),
        "last_step": max(steps, default=None),
        "rows": tables,
    }


def _encode(cursor: str | None, event: str, data: dict[str, Any]) -> bytes:
    body = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    head = "" if cursor is None else f"id: {cursor}\n"
    return f"{head}event: {event}\ndata: {body}\n\n".encode()
