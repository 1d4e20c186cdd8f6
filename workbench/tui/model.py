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

from tracing.keyframe import END_STEP, describe, keyframe_at
from tracing.reader import Run
from tracing.record import Level
from tracing.window import Window, rows_between
from workbench.look.words import Words
from workbench.replay_facts import StepFacts
from workbench.replay_pool import Pool
from workbench.replay_state import State
from workbench.replay_window import split_steps
from workbench.tui.lives import Lives, load_lives
from workbench.tui.log import Reasons
from workbench.tui.timeline import Timeline

SPAN = 384
"""Steps of history that are loaded."""
AHEAD = 64
"""Steps after the cursor, in a replay."""
ALIGN = 128
"""Histories begin at multiples of it, so that seats stay when the cursor moves a little."""
FRONT_END_TABLES = ("request", "request_phase", "request_end", "event")


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
    lives: Lives = field(default_factory=Lives)
    upcoming: list[tuple[int | None, Window]] = field(default_factory=list)
    """Rows after the cursor, by step."""
    has_tail: bool = False
    """The history knows what came after the last step."""
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
    def blocks_in_use(self) -> tuple[int | None, int]:
        """Blocks that requests hold, None: not known; and how many there are, 0: not known."""
        row = self.state.step_row
        if row is None:
            return None, 0
        whole = row["used_blocks"] + row["cached_free_blocks"] + row["free_blocks"]
        return self.state.pool.num_used if self.state.has_blocks else row["used_blocks"], whole

    @property
    def kv_share(self) -> float | None:
        """Blocks in use of all blocks."""
        used, whole = self.blocks_in_use
        return used / whole if whole and used is not None else None

    @property
    def until_ns(self) -> int:
        """Figures are about what had happened by then: at the last step, also what was told after it."""
        row = self.state.step_row
        if row is None or self.step >= self.last_step:
            return self.lives.end_ns(self.state.engine_id)
        return int(row["end_ns"])

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
        self.take_tail()
        return True

    def take_tail(self) -> None:
        """At the last step: what front ends said after it, and nobody will bring with another step."""
        if not self.upcoming or self.upcoming[0][0] is not None:
            return
        _, rows = self.upcoming.pop(0)
        told = {table: rows[table] for table in FRONT_END_TABLES if table in rows}
        if self.has_tail:
            self.state.apply(told)
        else:
            self.apply(told)
            self.has_tail = True


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
    engine, lives = state.engine_id, load_lives(run)
    for proc_id, gone_ns in lives.dead_front_ends(engine, is_now=step is None):
        state.bury(proc_id, gone_ns)
    if len(lives) > 1:
        _tell_of_earlier_lives(run, state)
    (now,) = run.query("moment", engine=-1 if engine is None else engine, n=END_STEP).dicts()
    reasons = Reasons(run.sql("FROM reason").dicts())
    model = Model(
        *(run, name, created_ns, state, Timeline(), reasons, Figures(), now["last_step"]),
        lives=lives,
    )
    model.figures = load_figures(run, engine, state.step, model.until_ns)
    model.counts = dict(model.figures.counts)
    if engine is not None and state.step >= 0:
        # Frames bring what follows a keyframe: asked for here, it would be more, the longer asking takes.
        last = state.step if start is not None else END_STEP if step is None else state.step + AHEAD
        _load_history(model, said, engine, last)
        if state.step >= model.last_step:
            model.take_tail()
    return model


def why_none(level: int | None, needs: Level, key: str, words: Words) -> str:
    """Why there is nothing of a kind: the level is too low for it, or, by its key, it has not been yet."""
    if level is not None and level < needs:
        return words("tui.not_recorded", level=level)
    return words(key)


def first_life(run: Run) -> int | None:
    """The engine with which a run began; None: it has none. Raises TraceError."""
    found = load_lives(run).lives
    return found[0].engine_id if found else None


def load_figures(run: Run, engine: int | None, step: int, until_ns: int) -> Figures:
    """Latencies and counts up to a step, and to a moment. Raises TraceError."""
    latency = run.query("latency_at", t_ns=until_ns).dicts()
    counts: dict[str, int] = {}
    if engine is not None:
        counts = dict(run.query("moment_counts", engine=engine, n=step).rows)
    return Figures(step, {row["metric"]: row for row in latency}, counts)


def load_upcoming(model: Model) -> list[tuple[int | None, Window]]:
    """Rows of the next steps. Raises TraceError."""
    engine = model.state.engine_id
    if engine is None:
        return []
    first = model.step + 1 + len(model.upcoming)
    last = first + AHEAD - 1
    last += last == model.last_step  # what came after the last step belongs to the next one
    window = rows_between(model.run, engine, first, last)
    window = model.lives.cut(engine, window, model.state.columns)
    return split_steps(window, model.state.columns)


def _load_history(model: Model, said: Mapping[str, Any], engine: int, last: int) -> None:
    """Replay the steps before the cursor, and those that follow it up to `last`, into the timeline."""
    step = model.step
    first = max(0, (step - SPAN) // ALIGN * ALIGN)
    scratch = State(
        said["columns"], said["run"], keyframe_at(model.run, engine=engine, step=first - 1)
    )
    window = rows_between(model.run, engine, first, last)
    window = model.lives.cut(engine, window, scratch.columns)
    for facts in scratch.apply(window):
        model.timeline.add(facts, scratch.requests)
        model.has_tail |= facts.row is None
    model.seen = scratch.requests
    if last == step + AHEAD:
        pieces = split_steps(window, said["columns"])
        model.upcoming = [(n, rows) for n, rows in pieces if n is None or n > step]


def _tell_of_earlier_lives(run: Run, state: State) -> None:
    """What those who left had been given by another life of the core. Raises TraceError."""
    gone = [r for r in state.requests.values() if r["left_ns"] and not r["num_output_tokens"]]
    if not gone:
        return
    ids = ", ".join(str(request["request_id"]) for request in gone)
    for request_id, hit, *told in run.sql(
        f"""SELECT request_id, any_value(e.num_cached_tokens), count(*), min(ts_ns) FILTER (k = 0),
                   max(ts_ns), max(gap_ns)
            FROM token LEFT JOIN request_end e USING (request_id)
            WHERE request_id IN ({ids}) AND engine_id <> {state.engine_id} GROUP BY 1"""
    ).rows:
        names = ("num_output_tokens", "first_token_ns", "last_token_ns", "max_gap_ns")
        state.requests[request_id].update(zip(names, told, strict=True), num_cached_tokens=hit)
