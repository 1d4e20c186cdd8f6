"""What was asked: a request, and how its tokens are to be chosen. Immutable.

Place in the step: the front end makes a `Request`, the core wraps it in a `Sequence`, which is what changes.
Source: names and defaults of vLLM 0.33 `vllm/sampling_params.py` and `vllm/v1/request.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.errors import ConfigError

MAX_TEMPERATURE = 10_000.0
"""Any token is as good as any other long before; far beyond, logits would leave the range of their type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen, and when to stop.

    Raises ConfigError when a value cannot work.
    """

    n: int = 1
    """Answers per prompt; each becomes a child request of its own."""
    temperature: float = 1.0
    """0 is greedy: always the most likely token."""
    top_p: float = 1.0
    top_k: int = 0
    """Keep only the k most likely tokens; 0 keeps all."""
    min_p: float = 0.0
    """Drop tokens less likely than min_p times the most likely one."""
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens seen in prompt or output."""
    logit_bias: Mapping[int, float] | None = None
    """Added to the logits of these tokens; 100 all but forces one, -100 all but forbids it."""
    seed: int | None = None
    max_tokens: int | None = 16
    """None: up to the model length."""
    min_tokens: int = 0
    """No stop token is sampled before so many tokens."""
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    """Report the log-probability of each chosen token and of so many most likely ones."""
    skip_special_tokens: bool = True
    include_stop_str_in_output: bool = False

    def __post_init__(self) -> None:
        """Normalise and check once, where the values enter."""
        given: object = self.stop  # people do write stop="."
        stop = (given,) if isinstance(given, str) else tuple(self.stop)
        object.__setattr__(self, "stop", stop)
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        for name in ("n", "top_k", "seed", "max_tokens", "min_tokens", "logprobs"):
            value = getattr(self, name)
            if not (value is None or isinstance(value, int)):
                raise ConfigError(f"{name} must be a whole number, got {value!r}")
        for name in ("temperature", "top_p", "min_p", "repetition_penalty"):
            if not isinstance(getattr(self, name), int | float):
                raise ConfigError(f"{name} must be a number, got {getattr(self, name)!r}")
        checks = [
            (self.n >= 1, f"n must be at least 1, got {self.n}"),
            (
                0 <= self.temperature <= MAX_TEMPERATURE,
                f"temperature must be in [0, {MAX_TEMPERATURE:g}], got {self.temperature}",
            ),
            (0 < self.top_p <= 1, f"top_p must be in (0, 1], got {self.top_p}"),
            (
                0 <= self.top_k < 2**31,
                f"top_k must be >= 0 (0 keeps all tokens), got {self.top_k}",
            ),
            (0 <= self.min_p <= 1, f"min_p must be in [0, 1], got {self.min_p}"),
            (-2 <= self.presence_penalty <= 2, "presence_penalty must be in [-2, 2]"),
            (-2 <= self.frequency_penalty <= 2, "frequency_penalty must be in [-2, 2]"),
            # Beyond these a logit would leave the range of its type.
            (0.01 <= self.repetition_penalty <= 100, "repetition_penalty must be in [0.01, 100]"),
            (
                all(-100 <= bias <= 100 for bias in (self.logit_bias or {}).values()),
                "logit_bias must be in [-100, 100]",
            ),
            (self.max_tokens is None or self.max_tokens >= 1, "max_tokens must be at least 1"),
            (self.min_tokens >= 0, "min_tokens must be >= 0"),
            (self.logprobs is None or 0 <= self.logprobs <= 20, "logprobs must be in 0..20"),
            (all(self.stop), "a stop string must not be empty"),
            (self.n == 1 or self.temperature > 0, "n > 1 needs a temperature above 0"),
        ]
        for ok, message in checks:
            if not ok:
                raise ConfigError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One prompt to be continued once; `n > 1` has become n requests before this point."""

    request_id: int
    """proc_id of the front end * 2**32 + its counter, so nobody has to agree on ids."""
    prompt_token_ids: list[int]
    params: SamplingParams
    arrival_ns: int
    """Monotonic clock; also breaks ties between equal priorities."""
    sent_ns: int = 0
    """When the front end handed it over: the phase `to_core` starts here, `queue` when the core has it."""
    eos_token_id: int | None = None
    priority: int = 0
    """Lower is more urgent, under scheduling_policy `priority`; for sglang higher, unless told otherwise."""
    cache_salt: str | None = None
    """Prefix blocks are shared only between requests of the same salt."""
    extra_key: str | None = None
    """A second such name, for what else must be equal, e.g. an adapter (sglang)."""
    routing_key: str | None = None
    """Groups requests for the policy `routing-key` (sglang)."""
    skip_reading_prefix_cache: bool = False
