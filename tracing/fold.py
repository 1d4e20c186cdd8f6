"""The fold: from what one process wrote to rows of tables. A pure function of its spool.

Records say little on purpose. What they leave out is put back here: the step that a fact belongs to, the time
between two tokens, ids that are unique in the run, wall-clock time; `tracing.kv_mirror` does the same for
block states. Nothing here knows files or databases, and nothing depends on how two processes' blocks
interleave, so folding a spool a second time gives the same rows: that is what makes a killed recorder able to
go on exactly where it was (`tracing.ingest`).

    CTX 7 | DECISION, BLOCKS, ... of step 7 | CTX 7 | ROW ... STEP of 7 | an abort: counts to step 8 | CTX 8

Invariant: rows appear in the order of seq, and each record is folded once.
Place in the step: none; this runs in the recorder's process, behind the engine's back.
"""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from tracing.codes import Code
from tracing.fold_kv import KvFold
from tracing.layout import DICT_KINDS, FIELDS, NULL, Kind, Level, Mode, Phase
from tracing.rows import KernelChunk, Rows, millionths, null, unsigned
from tracing.spool import Block

IDS_PER_PROC = 2**20
"""Run-wide dict id = proc_id * this + the process's own number: unique without anybody keeping count."""
MAX_GENERATING = 100_000
"""Requests whose last token is remembered, for the gap to the next one."""
CLOCK_STEP_NS = 100_000_000
"""Two anchors a minute apart differ by at most 30 ms while NTP slews; more means that the clock was set."""


class Fold:
    """What one process wrote, as rows in `rows`; whoever reads them takes them away (`take`)."""

    def __init__(
        self, proc_id: int, *, started_ns: int, offset_ns: int, run: tuple[Any, ...]
    ) -> None:
        """`offset_ns`: epoch minus monotonic; `run`: the columns of table run that run.json knows."""
        self.rows = Rows()
        self.next_seq = 0
        """The seq that the next block should begin with."""
        self.is_closed = False
        """It said BYE."""
        self.last_ns = 0
        """Latest monotonic time seen in its steps, tokens and ends."""
        self._proc_id, self._offset, self._run = proc_id, offset_ns, run
        self._started_ns = started_ns
        self._engine_id: int | None = None
        self._role = ""
        self._level = Level.OFF
        self._hello_seen = False
        self._step: int | None = None
        """Step of the records that follow; None: outside."""
        self._last_step = -1
        """Highest step named so far."""
        self._open: dict[int, tuple[int, int, int]] = {}
        """Step begun and not ended -> (seq, start, rows so far)."""
        self._last_token_ns: dict[int, int] = {}
        self._templates: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._spans: dict[int, tuple[Any, ...]] = {}
        """Begun and not ended."""
        self._clock_drift: int | None = None
        self._kv = KvFold(self.rows)
        self._handlers: dict[int, Callable[[int, list[int], bytes], None]] = {
            kind: getattr(self, f"_on_{kind.name.lower()}") for kind in Kind
        }

    def read(self, block: Block) -> int:
        """Fold one block; returns how many sequence numbers are missing before it."""
        if block.repeated and self._hello_seen:
            return 0  # known already: it is there for readers that lack the segments before
        lost = 0
        if not block.repeated:
            lost = max(0, block.first_seq - self.next_seq)
            self.next_seq = block.end_seq
        if lost:
            self._step = None  # the CTX may be among the lost
        for kind, seq, fields, text in block.records():
            self._handlers[kind](seq, fields, text)
        return lost

    def take(self) -> Rows:
        """The rows folded since the last call."""
        return self.rows.take()

    def end(self) -> None:
        """The process has gone: what it left open becomes rows too."""
        if self._role == "core":
            if not self.is_closed:
                for step, (seq, start_ns, _) in sorted(self._open.items()):
                    nothing = (None,) * (len(FIELDS[Kind.STEP]) - 1)
                    self.rows.add("step", (self._engine_id, step, seq, start_ns, *nothing))
            self._kv.keyframe(self._last_step, self.next_seq - 1)
        for span in self._spans.values():
            self.rows.add("span", span)

    # -- steps -----------------------------------------------------------------------------------

    def _on_ctx(self, seq: int, f: list[int], text: bytes) -> None:
        step, start_ns = f
        self._open.setdefault(step, (seq, self._time(start_ns), 0))
        self._step = step
        self._last_step = max(self._last_step, step)

    def _on_step(self, seq: int, f: list[int], text: bytes) -> None:
        if self._step is None:
            return  # its CTX was lost, so nobody knows which step this was
        step = self._step
        times = [self._maybe(t) for t in f[:5]]
        counts = [null(value) for value in f[6:20]]
        ratio = None if f[20] == NULL else f[20] / 1e6
        mode = Mode(f[5]).name.lower()
        columns = (*times, mode, *counts, ratio, null(f[21]), null(f[22]))
        self.rows.add("step", (self._engine_id, step, seq, *columns))
        self._open.pop(step, None)
        self._step = None
        self._saw(f[4])
        self._kv.maybe_keyframe(step, seq)

    def _on_row(self, seq: int, f: list[int], text: bytes) -> None:
        if self._step is None or self._step not in self._open:
            return
        first, start_ns, row = self._open[self._step]
        self._open[self._step] = (first, start_ns, row + 1)
        values = [null(value) for value in f]
        values[5], values[11] = bool(f[5]), bool(f[11])
        self.rows.add("step_request", (self._engine_id, self._step, row, *values))

    def _on_decision(self, seq: int, f: list[int], text: bytes) -> None:
        columns = (self._time(f[0]), *map(null, f[1:]))
        self.rows.add("decision", (self._engine_id, self._here(), seq, *columns))

    def _on_blocks(self, seq: int, f: list[int], text: bytes) -> None:
        who, other, idx = (null(value) for value in f[2:5])
        at = (self._here(), seq, self._time(f[0]))
        self._kv.blocks(at, f[1], (who, other), idx, f[5:])

    def _on_cached(self, seq: int, f: list[int], text: bytes) -> None:
        at = (self._here(), seq, self._time(f[0]))
        self._kv.cached(at, *f[1:])

    def _on_node(self, seq: int, f: list[int], text: bytes) -> None:
        ts_ns, code, who, other, node_id, parent, length, depth, locks, hits, priority, access = f[
            :12
        ]
        namespace = self._dict_id(f[12]) if f[12] else 0
        state = (parent, length, depth, locks, hits, priority, access, namespace)
        at = (self._here(), seq, self._time(ts_ns))
        self._kv.node(at, code, (null(who), null(other)), node_id, state)

    def _on_tokens(self, seq: int, f: list[int], text: bytes) -> None:
        now = self._time(f[0])
        step = self._here() if self._level >= Level.STEPS else None
        for at in range(1, len(f), 3):
            request_id, k, token_id = f[at : at + 3]
            before = self._last_token_ns.pop(request_id, None)  # out and in again: in order of use
            self._last_token_ns[request_id] = now
            gap = None if before is None or k == 0 else now - before
            row = (self._engine_id, step, request_id, k, now, gap, null(token_id))
            self.rows.add("token", row)
        while len(self._last_token_ns) > MAX_GENERATING:
            del self._last_token_ns[next(iter(self._last_token_ns))]
        self._saw(f[0])

    def _on_kernels(self, seq: int, f: list[int], text: bytes) -> None:
        template_id, num_tokens, clock = f[:3]
        known = self._templates.get(template_id)
        if known is None:
            return  # its definition was lost
        marks = np.array(f[3:], dtype=np.int64) + self._offset
        self.rows.kernels.append(
            KernelChunk(
                *(self._engine_id, self._proc_id, self._here(), seq, num_tokens),
                "device" if clock else "host",
                marks[:-1],
                np.diff(marks),
                *known,
            )
        )

    def _on_rank_step(self, seq: int, f: list[int], text: bytes) -> None:
        columns = (self._time(f[0]), self._time(f[1]), *map(null, f[2:]))
        self.rows.add("rank_step", (self._engine_id, self._proc_id, self._here(), seq, *columns))

    # -- requests --------------------------------------------------------------------------------

    def _on_request(self, seq: int, f: list[int], text: bytes) -> None:
        said = json.loads(text)
        request_id, parent, hi, lo, span_id, server = f[0], f[1], *f[2:6]
        namespace = 0 if f[11] in (0, NULL) else self._dict_id(f[11])
        ids = (request_id, null(parent), self._proc_id, said["external_id"], said["operation"])
        spans = [unsigned(word) for word in (hi, lo, span_id, server)]
        asked = (bool(f[7]), *map(null, f[8:11]), namespace, *map(millionths, f[12:14]))
        rest = (*asked, null(f[14]), null(f[15]))
        self.rows.add("request", (*ids, *spans, self._time(f[6]), *rest))
        self._saw(f[6])

    def _on_request_end(self, seq: int, f: list[int], text: bytes) -> None:
        counts = map(null, f[2:8])
        times = (self._maybe(t) for t in f[8:11])
        row = (f[0], self._time(f[1]), *counts, *times, null(f[11]), null(f[12]))
        self.rows.add("request_end", row)
        self._saw(f[1])

    def _on_phase(self, seq: int, f: list[int], text: bytes) -> None:
        request_id, phase, start_ns, end_ns, *steps = f
        first, last = (None if step < 0 else step for step in steps)
        times = (self._time(start_ns), self._time(end_ns))
        row = (request_id, Phase(phase).name.lower(), *times, first, last)
        self.rows.add("request_phase", row)

    def _on_prompt(self, seq: int, f: list[int], text: bytes) -> None:
        self.rows.add("prompt", (f[0], f[1:]))

    def _on_prompt_units(self, seq: int, f: list[int], text: bytes) -> None:
        for i, at in enumerate(range(2, len(f), 2)):
            self.rows.add("prompt_block", (f[0], i, f[at], f[at + 1]))

    # -- the process and the run -----------------------------------------------------------------

    def _on_hello(self, seq: int, f: list[int], text: bytes) -> None:
        self._hello_seen = True
        self._role, self._engine_id, self._level = (
            json.loads(text)["role"],
            null(f[1]),
            Level(f[6]),
        )
        self._kv.engine_id = self._engine_id
        ids = (f[3], unsigned(f[4]), unsigned(f[5]))
        started = self._time(self._started_ns)
        row = (self._proc_id, self._engine_id, self._role, f[2], *ids, started, f[6])
        self.rows.add("proc", row)

    def _on_bye(self, seq: int, f: list[int], text: bytes) -> None:
        self.is_closed = True

    def _on_run(self, seq: int, f: list[int], text: bytes) -> None:
        said = json.loads(text)
        names = ("policy", "cache_kind", "block_size", "num_blocks", "model")
        policy, cache_kind, block_size, num_blocks, model = (said.pop(name, None) for name in names)
        self._kv.set_block_size(block_size)
        if self._engine_id:
            return  # a later life of the core: the run has its row
        config = {**(said.pop("config", None) or {}), **said}
        run_id, format_, clock, created_ns, tokens_recorded = self._run
        row = (run_id, format_, clock, created_ns, policy, cache_kind, block_size, num_blocks)
        self.rows.add("run", (*row, tokens_recorded, model, json.dumps(config)))

    def _on_dict(self, seq: int, f: list[int], text: bytes) -> None:
        row = (DICT_KINDS[f[0]], self._dict_id(f[1]), text.decode(errors="replace"))
        self.rows.add("dict", row)

    def _on_template(self, seq: int, f: list[int], text: bytes) -> None:
        pairs = np.array(f[1:], dtype=np.int64).reshape(-1, 2)
        self._templates[f[0]] = (pairs[:, 0] + self._dict_id(0), pairs[:, 1])

    def _on_event(self, seq: int, f: list[int], text: bytes) -> None:
        if f[1] == Code.LEVEL:
            self._level = Level(f[5])
        columns = (self._time(f[0]), f[1], *map(null, f[2:]))
        self.rows.add("event", (self._engine_id, self._proc_id, seq, *columns))

    def _on_clock(self, seq: int, f: list[int], text: bytes) -> None:
        raw_ns, wall_ns = f
        self.rows.add("clock", (self._proc_id, raw_ns, wall_ns))
        drift = wall_ns - raw_ns - self._offset
        if self._clock_drift is not None and abs(drift - self._clock_drift) > CLOCK_STEP_NS:
            what = (Code.CLOCK_STEP, None, None, drift - self._clock_drift, None, None, None)
            row = (self._engine_id, self._proc_id, seq, self._time(raw_ns), *what)
            self.rows.add("event", row)
        self._clock_drift = drift

    def _on_second(self, seq: int, f: list[int], text: bytes) -> None:
        self.rows.add("second", (self._engine_id, self._time(f[0]), *map(null, f[1:])))

    def _on_span(self, seq: int, f: list[int], text: bytes) -> None:
        hi, lo, span_id, parent_id = (unsigned(word) for word in f[:4])
        kind, start_ns, end_ns, status, request_id = (null(word) for word in f[4:9])
        body = json.loads(text)
        name = body.pop("name")
        ids = (self._proc_id, seq, hi, lo, span_id, parent_id)
        times = (start_ns, end_ns)  # the SDK's own, already Unix epoch
        row = (*ids, name, kind, *times, status, request_id, json.dumps(body))
        assert span_id is not None
        if end_ns is None:
            self._spans[span_id] = row
        else:
            self._spans.pop(span_id, None)
            self.rows.add("span", row)

    # -- inside ----------------------------------------------------------------------------------

    def _here(self) -> int:
        """The step that a record belongs to: outside of one, the step that is scheduled next."""
        return self._last_step + 1 if self._step is None else self._step

    def _time(self, raw_ns: int) -> int:
        """Monotonic ns as epoch ns on the run's clock."""
        return raw_ns + self._offset

    def _maybe(self, raw_ns: int) -> int | None:
        return None if raw_ns == NULL else raw_ns + self._offset

    def _saw(self, raw_ns: int) -> None:
        if raw_ns != NULL:
            self.last_ns = max(self.last_ns, raw_ns + self._offset)

    def _dict_id(self, local_id: int) -> int:
        return self._proc_id * IDS_PER_PROC + local_id
