"""What crosses between front end, engine core and detokeniser, the same in one process and over a socket.

Plain dataclasses: in-process they are passed as they are, between processes msgspec encodes them.
Source: vLLM 0.33 `vllm/v1/engine/__init__.py` (EngineCoreRequest, EngineCoreOutput).
"""

from dataclasses import dataclass
from typing import Literal

from engine.batch import TokenLogprobs
from engine.request import Request, SamplingParams
from engine.sequence import PhaseSpan


@dataclass(frozen=True, slots=True)
class Add:
    """Front end -> core: a new request."""

    request: Request


@dataclass(frozen=True, slots=True)
class Abort:
    """Front end -> core: end this request now, for this reason (`Code` of kind end, and its argument)."""

    request_id: int
    code: int
    a0: int = 0


@dataclass(frozen=True, slots=True)
class SetLevel:
    """Front end -> core: record at this level from now on."""

    level: int


@dataclass(frozen=True, slots=True)
class ResetCache:
    """Front end -> core: forget every cached prefix; answered by `CacheReset`."""


@dataclass(frozen=True, slots=True)
class Steer:
    """Front end -> core: hold still, go on, change a limit between two steps; answered by `Steered`."""

    verb: Literal["look", "pause", "resume", "step", "knob", "break", "unbreak"]
    name: str = ""
    """Of the knob; of a breakpoint, its condition."""
    value: int = 0
    """Of the knob; how many steps; the breakpoint to remove."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Front end -> core: end what is open, close the trace, exit."""


ToCore = Add | Abort | SetLevel | ResetCache | Steer | Shutdown


@dataclass(frozen=True, slots=True)
class End:
    """How a request ended in the core, with its life for the trace."""

    code: int
    """`Code` of kind end, 801-833."""
    a0: int
    """The code's argument, e.g. the stop token."""
    end_ns: int
    last_step: int
    """-1: never scheduled."""
    num_cached_tokens: int | None
    """None: never admitted."""
    num_recomputed_tokens: int
    num_preemptions: int
    phases: tuple[PhaseSpan, ...]
    """From `to_core` on; each ends where the next begins, the last at end_ns."""


@dataclass(frozen=True, slots=True)
class CoreOutput:
    """Core -> front end: what a step brought for one request. An abort answers with an `end` and no token."""

    request_id: int
    step: int
    ts_ns: int
    """When the step's output was in hand (monotonic clock of the core)."""
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()
    end: End | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """The core after a step; what counts up does so from its start."""

    num_running: int
    num_waiting: int
    num_used_blocks: int
    num_cached_free_blocks: int
    new_token_ratio: float | None
    """sglang: share of possible output that is set aside; None elsewhere."""
    num_steps: int
    num_prefill_tokens: int
    num_decode_tokens: int
    num_preemptions: int


@dataclass(frozen=True, slots=True)
class StepOutputs:
    """Core -> front end: what a step brought, and how the core stands after it."""

    outputs: list[CoreOutput]
    stats: Stats


@dataclass(frozen=True, slots=True)
class OpenText:
    """Front end -> detokeniser: tokens of this request will come, and this is how they become text."""

    request_id: int
    prompt_tail: list[int]
    """Enough of the prompt's end to know whether a space belongs before the first word."""
    params: SamplingParams


@dataclass(frozen=True, slots=True)
class Piece:
    """The text that some tokens brought."""

    text: str
    """May be empty while a character or a possible stop string is incomplete."""
    num_taken: int
    """How many of the tokens belong to the answer."""
    stop_index: int | None
    """Which stop string was found, now or before."""
    detokenise_ns: int
    """What it took."""


@dataclass(frozen=True, slots=True)
class TextReady:
    """Detokeniser -> front end: it listens."""


@dataclass(frozen=True, slots=True)
class TextOutputs:
    """Detokeniser -> front end: the core's outputs and, one each, their text."""

    outputs: list[CoreOutput]
    pieces: list[Piece]
    stats: Stats
    sent_ns: int


@dataclass(frozen=True, slots=True)
class CacheReset:
    """Core -> front end: so many blocks were forgotten; None: refused, because requests hold blocks."""

    num_blocks: int | None


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Where the core stops before a step."""

    breakpoint_id: int
    when: str
    """The condition, as it was given."""


@dataclass(frozen=True, slots=True)
class PlannedRow:
    """One row of a step that was planned and has not run."""

    request_id: int
    code: int
    num_computed_tokens: int
    num_scheduled_tokens: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A step that is held."""

    step: int
    rows: list[PlannedRow]
    preempted: list[int]
    token_budget: int


@dataclass(frozen=True, slots=True)
class Steered:
    """Core -> front end: how things stand after a `Steer`."""

    is_paused: bool
    next_step: int
    stopped_by: str | None
    """The breakpoint's condition; None: paused by hand, or running."""
    knobs: dict[str, int]
    breakpoints: list[Breakpoint]
    plan: Plan | None
    """The step that is held; None: nothing is planned."""
    error: str | None
    """Why it was not done."""


@dataclass(frozen=True, slots=True)
class StartPhase:
    """One part of a start, on the monotonic clock."""

    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Ready:
    """Core -> front end: loaded; what the front end needs to know of it."""

    model_dir: str
    max_model_len: int
    num_blocks: int
    block_size: int
    ledger: dict[str, int]
    """Memory in bytes by use: weights, kv, workspace, ..."""
    config: dict[str, object]
    proc_id: int
    """Of the core in the trace."""
    engine_id: int | None
    """Which life of the core this is; None: nothing is recorded."""
    phases: tuple[StartPhase, ...]
    """How long the parts of the start took; they do not overlap."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Core -> front end: it could not start or has died; the message is for the user."""

    message: str


FromCore = StepOutputs | Ready | Failed | CacheReset | Steered
FromEngine = FromCore | TextReady | TextOutputs
"""What a front end hears: with a detokeniser process in between, `TextOutputs` instead of `StepOutputs`."""
