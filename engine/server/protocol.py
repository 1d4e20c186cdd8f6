"""What a client may ask: the parts of OpenAI's API that this engine really does, checked field by field.

A field that is not known is refused by its name, because an option that is silently ignored is a wrong
answer. Fields that change nothing about the answer (`user`, `metadata`, ...) are accepted. A field that is
null counts as not given. Beyond OpenAI's fields there are vLLM's usual extras (`top_k`, `min_p`, ...).

Source: OpenAI API reference, chat completions and completions; extras as in vLLM 0.33.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from engine.request import SamplingParams
from engine.server.api_error import ApiError, quote
from engine.text.chat_template import Message

Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
# Each branch of a union is tried on the whole input: it gives up at the first item that does not fit.
TokenIds = Annotated[list[TokenId], Field(fail_fast=True)]
TokenKey = Annotated[str, Field(pattern=r"^[0-9]{1,9}$")]
MAX_PROMPTS = 2048
MAX_MESSAGES = 16_384
MAX_PARTS = 1024
MAX_FIELDS = 256
"""Of one object. All limits of numbers are here so that no body keeps the process from its other clients."""
MAX_STOPS = 64
MAX_BIASED = 1024

Defaults = Mapping[str, float]
"""What the model's own generation_config.json says, by name of `SamplingParams`."""


class _Model(BaseModel):
    """Strict: unknown fields and wrong types are errors; null is the same as absent."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, fields: Any) -> Any:
        if isinstance(fields, dict):
            if len(fields) > MAX_FIELDS:
                raise ValueError(
                    f"an object of {len(fields)} fields; at most {MAX_FIELDS} are read"
                )
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
    n: Int64 = Field(default=1, le=128)
    seed: Int64 | None = None
    stop: str | Annotated[list[str], Field(fail_fast=True, max_length=MAX_STOPS)] = []
    stream: bool = False
    stream_options: StreamOptions | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Annotated[dict[TokenKey, float], Field(max_length=MAX_BIASED)] | None = None

    # vLLM's extras
    top_k: Int64 = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    min_tokens: Int64 = 0
    ignore_eos: bool = False
    stop_token_ids: Annotated[list[TokenId], Field(fail_fast=True, max_length=MAX_STOPS)] = []
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    priority: int = Field(default=0, ge=-(2**31), lt=2**31)
    cache_salt: str | None = Field(default=None, min_length=1, max_length=1024)

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

    def _params(
        self, defaults: Defaults, *, max_tokens: Int64 | None, logprobs: int | None
    ) -> SamplingParams:
        """Raises ConfigError when a value cannot work."""
        limits = [limit for limit in (max_tokens, defaults.get("max_tokens")) if limit is not None]
        shaping: dict[str, Any] = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": 0 if self.top_k == -1 else self.top_k,  # both are usual words for "all"
            "min_p": self.min_p,
            "repetition_penalty": self.repetition_penalty,
        }
        unsaid = shaping.keys() - self.model_fields_set
        shaping |= {name: value for name, value in defaults.items() if name in unsaid}
        bias = self.logit_bias
        return SamplingParams(
            **shaping,
            n=self.n,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=None if not bias else {int(token): add for token, add in bias.items()},
            seed=self.seed,
            max_tokens=min(int(limit) for limit in limits) if limits else None,
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
    content: str | Annotated[list[TextPart], Field(fail_fast=True, max_length=MAX_PARTS)]
    name: str | None = None

    @property
    def num_chars(self) -> int:
        """Of all its text."""
        content = self.content
        return len(content) if isinstance(content, str) else sum(len(p.text) for p in content)

    def as_template_message(self) -> Message:
        """What the chat template gets; `developer` is OpenAI's newer word for `system`."""
        role = "system" if self.role == "developer" else self.role
        fields = self.model_dump(exclude_none=True)
        return {**fields, "role": role}


Messages = Annotated[list[ChatMessage], Field(fail_fast=True, max_length=MAX_MESSAGES)]


class ChatBody(_Sampling):
    """The body of POST /v1/chat/completions."""

    messages: Messages = Field(min_length=1)
    max_tokens: Int64 | None = None
    """OpenAI's older name; without either, the answer may fill the context."""
    max_completion_tokens: Int64 | None = None
    logprobs: bool = False
    top_logprobs: Int64 = 0

    @model_validator(mode="after")
    def _check_logprobs(self) -> Self:
        if self.top_logprobs and not self.logprobs:
            raise ValueError("top_logprobs needs logprobs to be true")
        return self

    num_prompts: ClassVar[int] = 1

    def params(self, defaults: Defaults) -> SamplingParams:
        """Raises ConfigError when a value cannot work."""
        limit = self.max_completion_tokens
        return self._params(
            defaults,
            max_tokens=self.max_tokens if limit is None else limit,
            logprobs=self.top_logprobs if self.logprobs else None,
        )


class TextBody(_Sampling):
    """The body of POST /v1/completions."""

    prompt: (
        str
        | Annotated[list[str], Field(fail_fast=True, max_length=MAX_PROMPTS)]
        | TokenIds
        | Annotated[list[TokenIds], Field(fail_fast=True, max_length=MAX_PROMPTS)]
    )
    max_tokens: Int64 = 16
    logprobs: Int64 | None = None

    @model_validator(mode="after")
    def _check_prompt(self) -> Self:
        if not self.prompt:
            raise ValueError("prompt is empty: give at least one token")
        return self

    @property
    def num_prompts(self) -> int:
        """How many prompts there are."""
        return len(self.prompts)

    @property
    def prompts(self) -> list[str | list[int]]:
        """Each prompt, as text or as token ids."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return [prompt]
        if prompt and isinstance(prompt[0], int):
            return [[token_id for token_id in prompt if isinstance(token_id, int)]]
        return [p for p in prompt if not isinstance(p, int)]

    def params(self, defaults: Defaults) -> SamplingParams:
        """Raises ConfigError when a value cannot work."""
        return self._params(defaults, max_tokens=self.max_tokens, logprobs=self.logprobs)


class TokenizeBody(_Model):
    """The body of POST /tokenize: a prompt or a chat."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    add_special_tokens: bool = True
    """Of a prompt; a chat's template writes its own."""
    return_token_strs: bool = False

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if (self.prompt is None) == (self.messages is None):
            raise ValueError("give either prompt or messages")
        return self


class DetokenizeBody(_Model):
    """The body of POST /detokenize."""

    model: str | None = None
    tokens: TokenIds


class AbortBody(_Model):
    """The body of POST /abort_request."""

    rid: str
    """The id of an answer: of its chunks, or the client's own x-request-id behind `cmpl-` or `chatcmpl-`."""


class TraceLevelBody(_Model):
    """The body of POST /set_trace_level."""

    level: Literal["metrics", "requests", "steps", "blocks", "kernels"]


Body = TypeVar("Body", bound=BaseModel)


def parse(kind: type[Body], raw: bytes) -> Body:
    """The body of a request. Raises ApiError 400, naming the field."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError as error:
        # Of a union each branch has its errors; the one that got furthest is the one that was meant.
        details = error.errors(include_url=False, include_input=False, include_context=False)
        found = max(details, key=lambda e: (len(e["loc"]), e["type"] != "string_type"))
        *path, last = found["loc"] or ("",)
        fields = [str(part) for part in path if _is_field(part)]
        if found["type"] == "extra_forbidden" or _is_field(last):
            fields.append(str(last))
        param = quote(".".join(fields)) or None
        if found["type"] == "extra_forbidden":
            message = f"{param} is not supported by this server"
        elif found["type"] == "json_invalid":
            message = f"the body is not valid JSON: {found['msg']}"
        else:
            message = quote(found["msg"].removeprefix("Value error, "))
            message = f"{param}: {message}" if param else message
        raise ApiError(400, message, param=param) from None


def _is_field(part: str | int) -> bool:
    """A name or an index in the body, not the branch of a union (`str`, `list[str]`)."""
    return isinstance(part, int) or (part.isidentifier() and part != "str")
