"""The engine's state at a step, kept by applying rows: what a screen knows between two questions.

    state = State(columns, run_row, keyframe)            from `tracing.keyframe` or the live stream
    for facts in state.apply(rows): ...                  rows of a frame or a window, any number of steps

Live view and replay are this one model: only where the rows come from differs. Rows of the core are
applied in the order of seq, a step's sequences and tokens at the record that closed it, and what front
ends say around them. `apply` also hands back what happened, step by step, for those who draw histories.

    kv_event ... decision ... kv_event | step_request, token: applied here -> STEP  = the state after it

Invariant: the state at step n is the same whether n was reached by rows or by a keyframe, and it is what
the engine's own pool, queue and batch were.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from tracing.codes import Code
from tracing.keyframe import PREEMPTED, waiting_order
from tracing.record import Level
from workbench.replay_facts import ADMITTED, Facts, Part, StepFacts
from workbench.replay_pool import HOLD, Block, Pool, Turn

Row = Sequence[Any]
Token = tuple[Any, ...]
TOKEN = ("step", "request_id", "k", "ts_ns", "gap_ns")
KV = ("code", "request_id", "block_id", "num_blocks", "ts_ns")
MAX_DONE = 200
"""How many requests that left are remembered."""


class State:
    """Queue, batch and block pool after `step`."""

    def __init__(
        self,
        columns: Mapping[str, Sequence[str]],
        run_row: Mapping[str, Any] | None,
        keyframe: Mapping[str, Any],
    ) -> None:
        """`columns`: names of each table's columns; `run_row`: of table run; `keyframe`: `keyframe_at`."""
        self.columns = columns
        self.run = dict(run_row or {})
        self.engine_id: int | None = keyframe["engine_id"]
        self.step: int = keyframe["step"]
        self.level: int | None = keyframe["level"]
        self.step_row: Facts | None = keyframe["step_row"]
        self.totals: dict[str, int] = dict(keyframe["totals"])
        self.requests: dict[int, Facts] = {r["request_id"]: dict(r) for r in keyframe["requests"]}
        """Open ones, and the last that left."""
        self.running: list[int] = list(keyframe["running"])
        self.pool = self._new_pool()
        names = keyframe["blocks"]["columns"]
        rows = keyframe["blocks"]["rows"]
        self.pool.load([dict(zip(names, row, strict=True)) for row in rows])
        self._facts = StepFacts(self.step)
        self._is_planning = self._is_ahead(keyframe)
        """The core has told of a step that it has not closed: it runs, or it is held before it runs."""
        self._pending_parts: dict[int, list[Part]] = {}
        """Those that wait for their step to be closed, by step."""
        self._part_of = _getter(columns["step_request"], Part._fields)
        self._kv_of = _getter(columns["kv_event"], KV)
        self._pending_tokens: dict[int | None, list[Token]] = {}
        self._token_of = _getter(columns["token"], TOKEN)
        self._queue: list[int] | None = None
        """The queue since the last rows; None: not looked at yet."""
        self._config_of: object = None
        self._config_values: Facts = {}

    # -- reading ---------------------------------------------------------------------------------

    @property
    def waiting(self) -> list[int]:
        """The core's queue, next first. Who is still on the way to the core is not in it.

        How long it is was said when a step was closed; before the first one, and when the next one has been
        planned since, it is everybody who neither runs nor has left.
        """
        if self._queue is None:
            self._queue = self._find_queue()
        return self._queue

    def _find_queue(self) -> list[int]:
        config = self._config()
        running = set(self.running)
        queue = waiting_order(
            self.requests.values(), running, self.run.get("policy"), config.get("scheduling_policy")
        )
        if self.step_row is None or self._is_planning:
            return queue
        return queue[: self.step_row["num_waiting"]]

    @property
    def blocks(self) -> dict[int, Block]:
        """The pool by block id; empty if blocks are not recorded."""
        return self.pool.blocks

    @property
    def has_blocks(self) -> bool:
        """Whether KV blocks are recorded (level 3)."""
        return self.level is not None and self.level >= Level.BLOCKS

    # -- applying --------------------------------------------------------------------------------

    def apply(self, rows: Mapping[str, Sequence[Row]]) -> list[StepFacts]:
        """Apply rows by table; returns what happened, oldest first."""
        self._queue = None
        happened: list[StepFacts] = []
        for row in rows.get("run", ()):
            self._on_run(self._named("run", row))
        for row in rows.get("proc", ()):
            self._on_proc(self._named("proc", row))
        for row in rows.get("request", ()):
            self._on_request(self._named("request", row))
        for row in rows.get("step_request", ()):
            part = Part._make(self._part_of(row))
            self._pending_parts.setdefault(part.step, []).append(part)
        for row in rows.get("token", ()):
            token = self._token_of(row)
            self._pending_tokens.setdefault(token[0], []).append(token)
        self._on_tokens(self._pending_tokens.pop(None, []), self._facts)  # level 1: no steps
        for table, row in self._in_order(rows):
            if table == "kv_event":
                self._on_kv(row)
            elif table == "decision":
                self._on_decision(self._named(table, row))
            else:
                happened.append(self._on_step(self._named(table, row)))
        for row in rows.get("request_phase", ()):
            self._on_phase(self._named("request_phase", row))
        for row in rows.get("request_end", ()):
            self._on_end(self._named("request_end", row))
        for row in rows.get("event", ()):
            self._on_event(self._named("event", row))
        if not self._facts.is_empty:
            happened.append(self._facts)
            self._facts = StepFacts(self.step)
        return happened

    # -- the core --------------------------------------------------------------------------------

    def _in_order(self, rows: Mapping[str, Sequence[Row]]) -> list[tuple[str, Row]]:
        """Rows of this life of the core that have a place in its order."""
        found = []
        for table in ("kv_event", "decision", "step"):
            place = self.columns[table].index("seq")
            engine = self.columns[table].index("engine_id")
            found += [
                (row[place], table, row)
                for row in rows.get(table, ())
                if row[engine] == self.engine_id
            ]
        found.sort(key=lambda item: item[0])
        return [(table, row) for _, table, row in found]

    def _on_kv(self, row: Row) -> None:
        self._is_planning = True
        code, request_id, block_id, num_blocks, ts_ns = self._kv_of(row)
        if code == Code.KV_EVICT:
            self._facts.evictions.append(self.pool.eviction(row))
        elif code in HOLD and request_id is not None:
            sign = 1 if num_blocks > 0 else -1
            for j in range(abs(num_blocks)):
                self._facts.given[block_id + sign * j] = request_id
        turn = self.pool.apply(row)
        if turn is Turn.BEGINS:
            self._enter(request_id)
        elif turn is Turn.ENDS and request_id in self.running:
            self._leave(request_id, ts_ns)

    def _on_decision(self, row: Facts) -> None:
        self._facts.decisions.append(row)
        self._is_planning = True
        if row["code"] not in PREEMPTED:
            return
        request_id = row["request_id"]
        facts = self._request(request_id)
        facts.update(away_seq=row["seq"], away_ns=row["ts_ns"], left_ns=None, num_computed_tokens=0)
        facts["num_preemptions"] += 1
        facts["last_step"] = row["step"]
        if request_id in self.running:
            self.running.remove(request_id)
        if request_id in self._facts.left:  # its blocks were told first
            self._facts.left.remove(request_id)
        self._facts.preempted.append(request_id)

    def _on_step(self, row: Facts) -> StepFacts:
        """The record that closes a step: its rows and tokens count now."""
        step, facts = row["step"], self._facts
        self._facts = StepFacts(step)
        self._is_planning = False
        self.step = facts.step = step
        self.step_row = facts.row = row
        self.level = row["level"]
        facts.parts = self._pending_parts.pop(step, [])
        for part in facts.parts:
            self._on_part(part, facts)
        self._on_tokens(self._pending_tokens.pop(step, []), facts)
        self.totals["steps"] += 1
        self.totals["computed_tokens"] += row["num_tokens"]
        self.totals["prefill_tokens"] += row["num_prefill_tokens"]
        self.totals["preemptions"] += row["num_preempted"]
        return facts

    def _on_part(self, part: Part, facts: StepFacts) -> None:
        request_id = part.request_id
        request = self._request(request_id)
        request["last_step"] = part.step
        if part.code in ADMITTED:
            facts.admitted.append(part)
            request.update(admitted_step=part.step, admitted_row=part.row)
            request.update(away_seq=None, away_ns=None)
            if request["num_cached_tokens"] is None:
                request["num_cached_tokens"] = part.num_cached_tokens
                request["admitted_ns"] = facts.row["start_ns"] if facts.row else None
        if request["away_seq"] is None:
            drafts = part.num_draft_tokens - (part.num_accepted_tokens or 0)
            request["num_computed_tokens"] = (
                part.num_computed_tokens + part.num_scheduled_tokens - drafts
            )
        gone = request["left_ns"] is not None or request_id in facts.left
        if not gone and not self.has_blocks and request_id not in self.running:
            self._enter(request_id)

    def _on_tokens(self, tokens: list[Token], facts: StepFacts) -> None:
        """By far the most numerous rows: no dictionary is made for them."""
        self.totals["output_tokens"] += len(tokens)
        longest = facts.max_gap_ns or 0
        for _, request_id, k, ts_ns, gap_ns in tokens:
            request = self._request(request_id)
            request["num_output_tokens"] = k + 1
            request["last_token_ns"] = ts_ns
            if k == 0:
                request["first_token_ns"] = ts_ns
                facts.first_tokens.append((request_id, ts_ns))
            if gap_ns is not None:
                longest = max(longest, gap_ns)
                facts.max_gap_ns = longest
                if gap_ns > (request["max_gap_ns"] or 0):
                    request["max_gap_ns"] = gap_ns

    def _enter(self, request_id: int) -> None:
        self.running.append(request_id)
        self._request(request_id)["left_ns"] = None

    def _leave(self, request_id: int, ts_ns: int) -> None:
        self.running.remove(request_id)
        self._request(request_id)["left_ns"] = ts_ns
        self._facts.left.append(request_id)

    # -- front ends ------------------------------------------------------------------------------

    def _on_request(self, row: Facts) -> None:
        known = self.requests.get(row["request_id"])
        if known is None:
            self._facts.arrivals.append(row["request_id"])
            self.totals["requests"] += 1
        asked = ("external_id", "arrival_ns", "num_prompt_tokens", "max_tokens", "priority")
        self._request(row["request_id"]).update({name: row[name] for name in asked})

    def _on_phase(self, row: Facts) -> None:
        request = self.requests.get(row["request_id"])
        if row["phase"] == "queue":
            self._facts.queue_ns.append(row["end_ns"] - row["start_ns"])
        if request is not None and row["last_step"] is not None:
            known = request["last_step"]
            request["last_step"] = max(row["last_step"], -1 if known is None else known)

    def _on_end(self, row: Facts) -> None:
        request = self._request(row["request_id"])
        if request["end_ns"] is not None:
            return  # the keyframe knew it
        request.update(end_ns=row["end_ns"], code=row["code"], end_a0=row["a0"])
        request["left_ns"] = request["left_ns"] or row["end_ns"]
        self.totals["ended"] += 1
        if row["request_id"] in self.running and not self.pool.held.get(row["request_id"]):
            self.running.remove(row["request_id"])
        self._facts.ends.append(row)
        self._forget_some()

    def _on_event(self, row: Facts) -> None:
        self._facts.events.append(row)
        if row["code"] == Code.PROC_DIED and row["a0"] is not None:
            self.bury(row["a0"], row["ts_ns"])  # of a core, no request bears the number
        if row["code"] == Code.LEVEL:
            self.level = row["a1"]

    def bury(self, proc_id: int, gone_ns: int) -> None:
        """A front end has died, and with it whoever waited for its requests."""
        for request_id, request in self.requests.items():
            if request_id >> 32 == proc_id and request["left_ns"] is None:
                request["left_ns"] = gone_ns
                if request_id in self.running:
                    self.running.remove(request_id)
        self._queue = None

    def _on_proc(self, row: Facts) -> None:
        """A new life of the core begins with an empty pool and batch; front ends follow each other."""
        if row["role"] == "api":
            fronts = {request_id >> 32 for request_id in self.requests}
            for proc_id in (front for front in fronts if front < row["proc_id"]):
                self.bury(proc_id, row["started_ns"])
        if row["role"] != "core" or row["engine_id"] == self.engine_id:
            return
        self.engine_id, self.level = row["engine_id"], row["level"]
        self.step, self.step_row, self.running, self._is_planning = -1, None, [], False
        self.pool = self._new_pool()
        self.totals.update(
            steps=0, computed_tokens=0, prefill_tokens=0, preemptions=0, output_tokens=0
        )

    def _on_run(self, row: Facts) -> None:
        self.run = row
        if not self.pool.blocks:
            self.pool = self._new_pool()

    # -- inside ----------------------------------------------------------------------------------

    def _named(self, table: str, row: Row) -> Facts:
        return dict(zip(self.columns[table], row, strict=True))

    def _new_pool(self) -> Pool:
        num_blocks = self.run.get("num_blocks") if self.has_blocks else None
        return Pool(self.columns["kv_event"], num_blocks)

    @staticmethod
    def _is_ahead(keyframe: Mapping[str, Any]) -> bool:
        """The keyframe's last record lies behind its last step."""
        row, seq = keyframe["step_row"], keyframe["seq"]
        return row is not None and seq is not None and bool(seq > row["seq"])

    def _config(self) -> dict[str, Any]:
        if self._config_of is not self.run:
            self._config_of = self.run
            self._config_values = json.loads(self.run.get("config") or "{}")
        return self._config_values

    def _request(self, request_id: int) -> Facts:
        """What is known of a request; its rows may come before the front end's word of it."""
        facts = self.requests.get(request_id)
        if facts is None:
            facts = self.requests[request_id] = dict.fromkeys(_FACTS) | {
                "request_id": request_id,
                "arrival_ns": 0,
                "priority": 0,
                "num_computed_tokens": 0,
                "num_output_tokens": 0,
                "num_preemptions": 0,
            }
        return facts

    def _forget_some(self) -> None:
        """Keep the last that left."""
        done = [r for r in self.requests.values() if r["end_ns"] is not None]
        if len(done) > MAX_DONE * 5 // 4:
            done.sort(key=lambda r: r["end_ns"])
            for request in done[:-MAX_DONE]:
                del self.requests[request["request_id"]]


def _getter(columns: Sequence[str], names: Sequence[str]) -> Callable[[Row], tuple[Any, ...]]:
    """These columns of a row."""
    return itemgetter(*(list(columns).index(name) for name in names))


_FACTS = (
    *("request_id", "external_id", "arrival_ns", "num_prompt_tokens", "max_tokens", "priority"),
    *("num_cached_tokens", "admitted_ns", "admitted_step", "admitted_row", "num_computed_tokens"),
    *("num_output_tokens", "first_token_ns", "last_token_ns", "max_gap_ns", "num_preemptions"),
    *("away_seq", "away_ns", "queued_ns", "left_ns", "end_ns", "code", "end_a0", "last_step"),
)
