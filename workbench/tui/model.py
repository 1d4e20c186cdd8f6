"""What all screens look at: the engine's state at the cursor, the steps around it, and a few figures.

    state       after the step at the cursor, exactly       workbench.replay_state
    timeline    the steps before it (in a replay some after it too), with seats and log
    figures     latencies and counts so far, as the metrics' own SQL says

Building one takes queries, so it happens in a thread; a built one is advanced by rows and read by the
painters, both in the event loop.

Invariant: `timeline` covers the step at the cursor, if any step is there at all.
"""

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracing.keyframe import END_OF_TIME_NS, END_STEP, describe, keyframe_at
from tracing.reader import Run
from tracing.window import Window, rows_between
from workbench.replay_pool import Pool
from workbench.replay_state import State, StepFacts
from workbench.replay_window import split_steps
from workbench.tui.log import Reasons
from workbench.tui.timeline import Timeline

SPAN = 384
"""Steps of history that are loaded."""
AHEAD = 64
"""Steps after the cursor, in a replay."""
ALIGN = 128
"""Histories begin at multiples of it, so that seats stay when the cursor moves a little."""


@dataclass(slots=True)
class Figures:
    """What only queries know, at one step."""

    step: int = -1
    latency: dict[str, dict[str, Any]] = field(default_factory=dict)
    """`latency_at.sql` by metric."""
    counts: dict[str, int] = field(default_factory=dict)
    """`moment_counts.sql`."""


@dataclass
class Model:
    """A run at the cursor."""

    run: Run
    name: str
    created_ns: int
    """Zero of the time axis."""
    state: State
    timeline: Timeline
    reasons: Reasons
    figures: Figures
    last_step: int
    """The last finished step that is known."""
    upcoming: list[tuple[int | None, Window]] = field(default_factory=list)
    """Rows after the cursor, by step."""
    seen: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Requests that the history met."""
    counts: dict[str, int] = field(default_factory=dict)
    """How often each kind happened, kept up since `figures`."""
    colours: tuple[Pool, object, dict[int, str]] | None = None
    """The pool as it was drawn last: of which pool, in which theme, the colour of each block."""

    @property
    def step(self) -> int:
        """The step at the cursor; -1: none yet."""
        return self.state.step

    @property
    def block_size(self) -> int:
        """Tokens in a KV block."""
        return int(self.state.run.get("block_size") or 1)

    @property
    def now_ns(self) -> int:
        """The moment at the cursor; 0: none."""
        row = self.state.step_row
        return 0 if row is None else int(row["end_ns"])

    @property
    def facts(self) -> Mapping[int, dict[str, Any]]:
        """What is known of requests, also of those that the state has forgotten."""
        return ChainMap(self.state.requests, self.seen)

    def request(self, request_id: int) -> dict[str, Any]:
        """What is known of a request; an empty dictionary if nothing is."""
        return self.facts.get(request_id, {})

    def apply(self, rows: Mapping[str, Sequence[Any]]) -> list[StepFacts]:
        """Go on by rows of steps that follow."""
        happened = self.state.apply(rows)
        for facts in happened:
            for entry in self.timeline.add(facts, self.state.requests):
                self.counts[entry.kind] = self.counts.get(entry.kind, 0) + entry.num
        self.last_step = max(self.last_step, self.state.step)
        return happened

    def forward(self) -> bool:
        """Go on by one step of what was loaded; False if that is used up."""
        if not self.upcoming or self.upcoming[0][0] is None:
            return False
        _, rows = self.upcoming.pop(0)
        self.apply(rows)
        return True


def load(
    run: Run,
    name: str,
    created_ns: int,
    step: int | None,
    *,
    engine: int | None = None,
    start: Mapping[str, Any] | None = None,
) -> Model:
    """Everything at a step (None: as of now). Takes a few queries. Raises TraceError.

    `engine`: which life of the core; default: the latest. `start`: a keyframe of the live stream, for a
    model that its frames will be applied to.
    """
    said = describe(run) if start is None else start
    head = keyframe_at(run, engine=engine, step=step) if start is None else start["state"]
    state = State(said["columns"], said["run"], head)
    engine = state.engine_id
    (now,) = run.query("moment", engine=-1 if engine is None else engine, n=END_STEP).dicts()
    reasons = Reasons(run.sql("FROM reason").dicts())
    figures = load_figures(run, state)
    model = Model(
        *(run, name, created_ns, state, Timeline(), reasons, figures, now["last_step"]),
        counts=dict(figures.counts),
    )
    if engine is not None and state.step >= 0:
        _load_history(model, said, engine, is_now=step is None)
    return model


def load_figures(run: Run, state: State) -> Figures:
    """Latencies and counts up to the state's step. Raises TraceError."""
    row = state.step_row
    latency = run.query("latency_at", t_ns=END_OF_TIME_NS if row is None else row["end_ns"]).dicts()
    counts: dict[str, int] = {}
    if state.engine_id is not None:
        counts = dict(run.query("moment_counts", engine=state.engine_id, n=state.step).rows)
    return Figures(state.step, {row["metric"]: row for row in latency}, counts)


def load_upcoming(model: Model) -> list[tuple[int | None, Window]]:
    """Rows of the next steps. Raises TraceError."""
    engine = model.state.engine_id
    if engine is None:
        return []
    first = model.step + 1 + len(model.upcoming)
    window = rows_between(model.run, engine, first, first + AHEAD - 1)
    return split_steps(window, model.state.columns)


def _load_history(model: Model, said: Mapping[str, Any], engine: int, *, is_now: bool) -> None:
    """Replay the steps before the cursor, and those that follow it, into the timeline."""
    step = model.step
    first = max(0, (step - SPAN) // ALIGN * ALIGN)
    scratch = State(
        said["columns"], said["run"], keyframe_at(model.run, engine=engine, step=first - 1)
    )
    window = rows_between(model.run, engine, first, END_STEP if is_now else step + AHEAD)
    for facts in scratch.apply(window):
        model.timeline.add(facts, scratch.requests)
    model.seen = scratch.requests
    if not is_now:
        pieces = split_steps(window, said["columns"])
        model.upcoming = [(n, rows) for n, rows in pieces if n is None or n > step]
