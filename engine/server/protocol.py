"""What a client may ask: the parts of OpenAI's API that this engine really does, checked field by field.

A field that is not known is refused by its name, because an option that is silently ignored is a wrong
answer. Fields that change nothing about the answer (`user`, `metadata`, ...) are accepted. A field that is
null counts as not given. Beyond OpenAI's fields there are vLLM's usual extras (`top_k`, `min_p`, ...).

Source: OpenAI API reference, chat completions and completions; extras as in vLLM 0.33.
"""

from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.request import SamplingParams
from engine.text.chat_template import Message

TokenId = Annotated[int, Field(ge=0, lt=2**31)]


class ApiError(Exception):
    """An answer that is an error, in OpenAI's shape."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code

    def body(self) -> dict[str, object]:
        """OpenAI's error object."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": error}


class _Model(BaseModel):
    """Strict: unknown fields and wrong types are errors; null is the same as absent."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, fields: Any) -> Any:
        if isinstance(fields, dict):
            return {name: value for name, value in fields.items() if value is not None}
        return fields


class StreamOptions(_Model):
    """How a stream ends."""

    include_usage: bool = False
    """One more chunk before the end, with the usage of the whole request."""
    include_obfuscation: bool = False
    """Accepted and not done: it pads chunks to hide their length on a public network."""


class _Sampling(_Model):
    """What both endpoints share."""

    model: str | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    n: int = Field(default=1, le=128)
    seed: int | None = None
    stop: str | list[str] = []
    stream: bool = False
    stream_options: StreamOptions | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0

    # vLLM's extras
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    min_tokens: int = 0
    ignore_eos: bool = False
    stop_token_ids: list[TokenId] = []
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    priority: int = Field(default=0, ge=-(2**31), lt=2**31)
    cache_salt: str | None = None

    # accepted, because they say nothing about the answer
    user: Any = None
    metadata: Any = None
    store: Any = None
    service_tier: Any = None
    safety_identifier: Any = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a chunk of usage."""
        return self.stream_options is not None and self.stream_options.include_usage

    @model_validator(mode="after")
    def _check_stream_options(self) -> Self:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is only allowed when stream is true")
        return self

    def _params(self, *, max_tokens: int | None, logprobs: int | None) -> SamplingParams:
        """Raises ConfigError when a value cannot work."""
        return SamplingParams(
            n=self.n,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=0 if self.top_k == -1 else self.top_k,  # both are usual words for "all"
            min_p=self.min_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repetition_penalty=self.repetition_penalty,
            seed=self.seed,
            max_tokens=max_tokens,
            min_tokens=self.min_tokens,
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop),
            stop_token_ids=tuple(self.stop_token_ids),
            ignore_eos=self.ignore_eos,
            logprobs=logprobs,
            skip_special_tokens=self.skip_special_tokens,
            include_stop_str_in_output=self.include_stop_str_in_output,
        )


class TextPart(_Model):
    """A part of a message's content."""

    type: Literal["text"]
    text: str


class ChatMessage(_Model):
    """One turn."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]
    name: str | None = None

    def as_template_message(self) -> Message:
        """What the chat template gets; `developer` is OpenAI's newer word for `system`."""
        role = "system" if self.role == "developer" else self.role
        fields = self.model_dump(exclude_none=True)
        return {**fields, "role": role}


class ChatBody(_Sampling):
    """The body of POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1)
    max_tokens: int | None = None
    """OpenAI's older name; without either, the answer may fill the context."""
    max_completion_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0

    @model_validator(mode="after")
    def _check_logprobs(self) -> Self:
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs to be true")
        return self

    def params(self) -> SamplingParams:
        """Raises ConfigError when a value cannot work."""
        limit = self.max_completion_tokens
        return self._params(
            max_tokens=self.max_tokens if limit is None else limit,
            logprobs=self.top_logprobs if self.logprobs else None,
        )


class TextBody(_Sampling):
    """The body of POST /v1/completions."""

    prompt: str | list[str] | list[TokenId] | list[list[TokenId]]
    max_tokens: int = 16
    logprobs: int | None = None

    @model_validator(mode="after")
    def _check_prompt(self) -> Self:
        if not self.prompt:
            raise ValueError("prompt is empty: give at least one token")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        """Each prompt, as text or as token ids."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if prompt and isinstance(prompt[0], int):
            return [[token_id for token_id in prompt if isinstance(token_id, int)]]
        return [p for p in prompt if not isinstance(p, int)]

    def params(self) -> SamplingParams:
        """Raises ConfigError when a value cannot work."""
        return self._params(max_tokens=self.max_tokens, logprobs=self.logprobs)


Body = TypeVar("Body", bound=_Sampling)


def parse(kind: type[Body], raw: bytes) -> Body:
    """The body of a request. Raises ApiError 400, naming the field."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        # Of a union each branch has its errors; the one that got furthest is the one that was meant.
        found = max(error.errors(include_url=False), key=lambda e: len(e["loc"]))
        param = ".".join(str(part) for part in found["loc"] if _is_field(part)) or None
        if found["type"] == "extra_forbidden":
            message = f"{param} is not supported by this server"
        elif found["type"] == "json_invalid":
            message = f"the body is not valid JSON: {found['msg']}"
        else:
            message = found["msg"].removeprefix("Value error, ")
            message = f"{param}: {message}" if param else message
        raise ApiError(400, message, param=param) from None


def _is_field(part: str | int) -> bool:
    """A name or an index in the body, not the branch of a union (`str`, `list[str]`)."""
    return isinstance(part, int) or (part.isidentifier() and part != "str")
