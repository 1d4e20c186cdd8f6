"""Holding the engine still: pause, single steps, breakpoints and knobs, between two steps and nowhere else.

    core asks for a batch ─► planned? ─► a breakpoint fits? ── no ──► submitted
                  ▲                          └── yes ──► held: its plan is made and recorded, it has not run
                  └── paused: no plan is made            step or resume submits it

The scheduler plans a batch in any case, so what is held is what would have run; only when it runs is decided
here. Arrivals and aborts go on meanwhile. Every act is an event of the trace (codes 1004 to 1007).

Invariant: tokens do not depend on it (rule 2): control changes when a step runs, knobs what is in it, never
what it computes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.batch import Batch
from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.messages import Breakpoint, Plan, PlannedRow, Steer, Steered
from engine.scheduler.base import Scheduler
from tracing.record import Code, Recorder

KNOBS = ("max_num_batched_tokens", "max_num_seqs", "chunk_cap")
"""In the order of their numbers in the trace. chunk_cap: vLLM's long_prefill_token_threshold, SGLang's
chunked_prefill_size; 0: none."""
_FIRST_TOKEN = re.compile(r"request\s+(\d{1,20})\s+first\s+token")
_FREE = re.compile(r"free\s*<\s*(\d{1,20})")


@dataclass(slots=True)
class _Watch:
    """A breakpoint: its condition on the batch that was planned, and whether it held last time."""

    told: Breakpoint
    fits: Callable[[Batch], bool]
    fitted: bool = False


class Control:
    """Stands between the scheduler and the executor of one core."""

    def __init__(self, scheduler: Scheduler, recorder: Recorder) -> None:
        self._scheduler = scheduler
        self._recorder = recorder
        self._largest = _knobs(scheduler.config)
        """Memory was laid out for these."""
        self._watches: list[_Watch] = []
        self._num_watches = 0
        self._held: Batch | None = None
        self._held_ns = 0
        """When it was held back, on the scheduler's clock."""
        self._padding: set[int] = set()
        """Requests in the held batch that had ended before it was planned (static batching)."""
        self._is_paused = False
        self._num_allowed = 0
        """Steps that may run although it is paused."""
        self._stopped_by: str | None = None

    @property
    def is_stopped(self) -> bool:
        """No step will run until somebody says so."""
        return self._is_paused and not self._num_allowed

    def next_batch(self) -> Batch | None:
        """The batch to run now, or None: nothing to do, or held still."""
        if self.is_stopped:
            return None
        held, self._held = self._held, None
        batch = None if held is None else self._released(held)
        if batch is None or not batch.rows:
            batch = self._plan()
        if batch is not None:
            self._num_allowed = max(0, self._num_allowed - 1)
        return batch

    def act(self, steer: Steer) -> Steered:
        """Do what is asked and tell how things stand; what cannot be done is told in `error`."""
        error = None
        try:
            match steer.verb:
                case "pause":
                    self._pause()
                case "resume":
                    self._resume()
                case "step":
                    self._allow(max(1, steer.value))
                case "knob":
                    self._turn(steer.name, steer.value)
                case "break":
                    self._watch(steer.name)
                case "unbreak":
                    self._forget(steer.value)
        except ConfigError as refusal:
            error = str(refusal)
        self._recorder.flush()
        return self._tell(error)

    # -- stopping --------------------------------------------------------------------------------

    def _plan(self) -> Batch | None:
        batch = self._scheduler.schedule()
        if batch is None:
            return None
        hit = [watch for watch in self._watches if self._is_hit(watch, batch)]
        if not hit:
            return batch
        first = hit[0].told
        self._held, self._held_ns = batch, self._scheduler.clock()
        self._is_paused, self._num_allowed = True, 0
        self._padding = {row.seq.request_id for row in batch.rows if row.seq.is_finished}
        self._stopped_by = first.when
        self._recorder.event(Code.BREAKPOINT, first.breakpoint_id, batch.step, step=batch.step)
        self._recorder.flush()
        return None

    def _released(self, batch: Batch) -> Batch:
        """The batch as if it had been planned just now: how long it was held is no part of its step.

        Rows of those that were aborted meanwhile are left out: their blocks are gone.
        """
        kept = tuple(
            row
            for row in batch.rows
            if not row.seq.is_finished or row.seq.request_id in self._padding
        )
        held_for = self._scheduler.clock() - self._held_ns
        return replace(batch, rows=kept, start_ns=batch.start_ns + held_for)

    def _is_hit(self, watch: _Watch, batch: Batch) -> bool:
        """It fits now and did not before: a state that lasts stops once."""
        before, watch.fitted = watch.fitted, watch.fits(batch)
        return watch.fitted and not before

    def _pause(self) -> None:
        self._num_allowed = 0
        if not self._is_paused:
            self._is_paused, self._stopped_by = True, None
            self._recorder.event(Code.PAUSE, self._next_step, step=self._next_step)

    def _resume(self) -> None:
        if self._is_paused:
            self._is_paused, self._stopped_by, self._num_allowed = False, None, 0
            self._recorder.event(Code.RESUME, self._next_step, step=self._next_step)

    def _allow(self, num_steps: int) -> None:
        self._pause()
        self._num_allowed = num_steps
        self._stopped_by = None

    @property
    def _next_step(self) -> int:
        return self._scheduler.num_steps if self._held is None else self._held.step

    # -- knobs and breakpoints -------------------------------------------------------------------

    def _turn(self, name: str, value: int) -> None:
        """Change a limit of the next plan. Raises ConfigError."""
        if name not in KNOBS:
            raise ConfigError(f"no knob {name!r}; there are {', '.join(KNOBS)}")
        old, most = _knobs(self._scheduler.config)[name], self._largest[name]
        least = 0 if name == "chunk_cap" else 1
        if name == "chunk_cap":
            most = self._largest["max_num_batched_tokens"]
        if not least <= value <= most:
            raise ConfigError(
                f"{name} can be {least} to {most}: memory was laid out for the start's settings"
            )
        self._scheduler.config = _with_knob(self._scheduler.config, name, value)
        self._recorder.event(Code.KNOB, KNOBS.index(name), old, value, step=self._next_step)

    def _watch(self, when: str) -> None:
        """Add a breakpoint. Raises ConfigError if the condition is none of those that are known."""
        when = when.strip()
        fits = self._condition(when)  # a refused one takes no number
        self._num_watches += 1
        self._watches.append(_Watch(Breakpoint(self._num_watches, when), fits))

    def _condition(self, when: str) -> Callable[[Batch], bool]:
        pool = self._scheduler.kv
        if when == "preempt":
            return lambda batch: bool(batch.preempted)
        free = _FREE.fullmatch(when)
        if free:
            few = int(free[1])
            return lambda batch: pool.num_free < few
        first = _FIRST_TOKEN.fullmatch(when)
        if first:
            number = int(first[1])
            return lambda batch: any(
                row.samples
                and row.seq.num_output_tokens == 0
                and number in (row.seq.request_id, row.seq.request_id & 0xFFFFFFFF)
                for row in batch.rows
            )
        raise ConfigError(
            f"cannot stop at {when!r}: say `preempt`, `free < 8` or `request 7 first token`"
        )

    def _forget(self, breakpoint_id: int) -> None:
        kept = [w for w in self._watches if w.told.breakpoint_id != breakpoint_id]
        if len(kept) == len(self._watches):
            raise ConfigError(f"there is no breakpoint {breakpoint_id}")
        self._watches = kept

    # -- telling ---------------------------------------------------------------------------------

    def _tell(self, error: str | None) -> Steered:
        held = self._held
        return Steered(
            is_paused=self._is_paused,
            next_step=self._next_step,
            stopped_by=self._stopped_by,
            knobs=_knobs(self._scheduler.config),
            breakpoints=[watch.told for watch in self._watches],
            plan=None if held is None else _describe(held),
            error=error,
        )


def _describe(batch: Batch) -> Plan:
    return Plan(
        step=batch.step,
        rows=[
            PlannedRow(
                row.seq.request_id, row.code, row.num_computed_tokens, row.num_scheduled_tokens
            )
            for row in batch.rows
        ],
        preempted=[seq.request_id for seq in batch.preempted],
        token_budget=batch.token_budget,
    )


def _knobs(config: EngineConfig) -> dict[str, int]:
    cap = config.long_prefill_token_threshold
    if config.policy == "sglang":
        cap = config.sglang.chunked_prefill_size or 0
    return {
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "max_num_seqs": config.max_num_seqs,
        "chunk_cap": cap,
    }


def _with_knob(config: EngineConfig, name: str, value: int) -> EngineConfig:
    if name == "max_num_batched_tokens":
        return replace(config, max_num_batched_tokens=value)
    if name == "max_num_seqs":
        return replace(config, max_num_seqs=value)
    if config.policy == "sglang":
        return replace(config, sglang=replace(config.sglang, chunked_prefill_size=value or None))
    return replace(config, long_prefill_token_threshold=value)
