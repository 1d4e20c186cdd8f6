"""What a user gets back: finished answers, and the pieces in which they grow.

Source: names of vLLM 0.33 `vllm/outputs.py` (RequestOutput, CompletionOutput).
"""

from dataclasses import dataclass
from typing import Literal

FinishReason = Literal["stop", "length", "abort"]
"""stop: by itself or by a stop string; length: max_tokens or the model's context; abort: from outside."""


@dataclass(frozen=True, slots=True)
class Logprob:
    """One token and the logarithm of its probability."""

    token_id: int
    token: str
    """Its text; U+FFFD stands for a part of a character."""
    token_bytes: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class PositionLogprobs:
    """Log-probabilities at one output position."""

    chosen: Logprob
    rank: int
    """1: the chosen token was the most likely one."""
    top: tuple[Logprob, ...]
    """The most likely tokens, best first."""


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """One answer to a prompt; `n` of them when several were asked for."""

    index: int
    request_id: int
    text: str
    token_ids: list[int]
    logprobs: list[PositionLogprobs] | None
    """Per token; None: not asked for."""
    finish_reason: FinishReason | None
    """None: still running."""
    stop_reason: str | int | None
    """The stop string or stop token that ended it; None for end-of-sequence and other reasons."""


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """A prompt and its answers so far."""

    request_id: int
    """Of the first answer."""
    prompt: str | None
    """None when the prompt was given as token ids or as a chat."""
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool
    num_cached_tokens: int | None
    """Prompt tokens that the prefix cache had; None: not known before the end."""
