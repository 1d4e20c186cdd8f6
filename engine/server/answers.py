"""What a client gets back: OpenAI's response objects.

A field that was not set is not sent: OpenAI's objects tell "absent" from null (`usage` of a chunk, `role` of
a delta). So a field has a default here only if it may be absent.

Source: OpenAI API reference, chat completions and completions; `stop_reason` is vLLM's.
"""

from typing import Literal

from pydantic import BaseModel

from engine.outputs import FinishReason


class PromptDetails(BaseModel):
    """Of the prompt's tokens."""

    cached_tokens: int
    """Found in the prefix cache."""


class Usage(BaseModel):
    """What the request cost, all prompts and choices together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class TopLogprob(BaseModel):
    """A token that could have been chosen."""

    token: str
    bytes: list[int]
    logprob: float


class ChatLogprob(TopLogprob):
    """The token that was chosen, and the most likely ones."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """Chat's form: one entry per token."""

    content: list[ChatLogprob]


class TextLogprobs(BaseModel):
    """Completions' older form: parallel lists."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]
    """Where each token begins, in characters of its choice."""


class ChatMessageOut(BaseModel):
    """The assistant's turn, or a piece of it."""

    role: Literal["assistant"] = "assistant"
    content: str


class ChatChoice(BaseModel):
    """One answer."""

    index: int
    message: ChatMessageOut
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None
    stop_reason: int | str | None


class ChatChunkChoice(BaseModel):
    """A piece of one answer."""

    index: int
    delta: ChatMessageOut
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None


class TextChoice(BaseModel):
    """One continuation, or a piece of it."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: FinishReason | None
    stop_reason: int | str | None = None


class _Answer(BaseModel):
    id: str
    created: int
    """Unix seconds."""
    model: str


class ChatAnswer(_Answer):
    """POST /v1/chat/completions."""

    object: Literal["chat.completion"]
    choices: list[ChatChoice]
    usage: Usage


class ChatChunk(_Answer):
    """A piece of it, in a stream."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChatChunkChoice]
    usage: Usage | None = None


class TextAnswer(_Answer):
    """POST /v1/completions; also its pieces in a stream."""

    object: Literal["text_completion"]
    choices: list[TextChoice]
    usage: Usage | None = None


class Health(BaseModel):
    """GET /health."""

    status: Literal[
        "ok", "starting", "ready", "restarting", "over", "shutting down", "unresponsive"
    ]
    reason: str | None


class Model(BaseModel):
    """GET /v1/models/{id}."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int
    """Prompt plus output, in tokens; 0: the model is still loading."""


class ModelList(BaseModel):
    """GET /v1/models."""

    object: Literal["list"]
    data: list[Model]


class TokenizeAnswer(BaseModel):
    """POST /tokenize."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None


class DetokenizeAnswer(BaseModel):
    """POST /detokenize."""

    prompt: str


class AbortAnswer(BaseModel):
    """POST /abort_request."""

    aborted: int
    """Prompts whose answers are being ended; 0: none is open under this id."""


class CacheResetAnswer(BaseModel):
    """POST /reset_prefix_cache."""

    num_blocks: int
    """That held a prefix."""


class TraceLevelAnswer(BaseModel):
    """POST /set_trace_level."""

    level: str
