"""What crosses between front end and engine core, the same in one process and over a socket.

Plain dataclasses: in-process they are passed as they are, between processes msgspec encodes them.
Source: vLLM 0.33 `vllm/v1/engine/__init__.py` (EngineCoreRequest, EngineCoreOutput).
"""

from dataclasses import dataclass

from engine.batch import TokenLogprobs
from engine.request import Request
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
class Shutdown:
    """Front end -> core: end what is open, close the trace, exit."""


ToCore = Add | Abort | SetLevel | Shutdown


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
class Ready:
    """Core -> front end: loaded; what the front end needs to know of it."""

    model_dir: str
    max_model_len: int
    num_blocks: int
    block_size: int
    ledger: dict[str, int]
    """Memory in bytes by use: weights, kv, workspace, ..."""
    config: dict[str, object]


@dataclass(frozen=True, slots=True)
class Failed:
    """Core -> front end: it could not start or has died; the message is for the user."""

    message: str


FromCore = list[CoreOutput] | Ready | Failed
