"""One frozen configuration for the whole engine; names as in vLLM where the meaning is vLLM's.

Derived values are properties. What is only known after the model is loaded (number of blocks, model length)
comes in by `resolve`, which returns a new copy; nothing is ever written back.
Source: vLLM 0.33 `vllm/config/scheduler.py`, `vllm/config/cache.py`.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from engine.config_sglang import SglangConfig
from engine.errors import ConfigError
from engine.kv.hashing import HashAlgo


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """Everything that can be set. Raises ConfigError on values that cannot work."""

    model: str = "smollm2-135m"
    """A known name, a local Hugging Face folder, or a hub id."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 where the CPU multiplies it natively (AMX, AVX512-BF16) or on a GPU, else float32."""
    policy: Literal["vllm", "sglang", "static"] = "vllm"
    """The scheduler: `vllm` or `sglang` (continuous batching), or `static` (the baseline of both)."""
    cache: Literal["auto", "hash", "radix", "none", "reserve"] = "auto"
    """Prefix cache by block-hash chain; radix tree (sglang); none; or contiguous room for the maximum length
    per request. auto: the policy's own."""
    block_size: int = 0
    """Tokens per KV block; 0: the policy's own, 1 for sglang (which calls it page_size), else 16."""
    num_blocks: int | None = None
    """Size of the pool including the null block 0; None: as many as fit in kv_memory_bytes."""
    kv_memory_bytes: int | None = None
    """Budget for KV; None: 1 GiB, or less where the machine has less to spare."""
    prefix_caching_hash_algo: HashAlgo = "sha256"
    max_model_len: int | None = None
    """Prompt plus output; None: the model's own limit."""
    max_num_batched_tokens: int = 2048
    """Token budget of one step."""
    max_num_seqs: int = 128
    max_num_active_seqs: int | None = None
    long_prefill_token_threshold: int = 0
    """Cap on one sequence's tokens in a step while others exist; 0: none."""
    long_prefill_token_threshold_adaptive: bool = False
    """Raise that cap to an even share of the budget."""
    enable_chunked_prefill: bool = True
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    watermark: float = 0.0
    """Share of the pool to keep free at admission."""
    scheduler_reserve_full_isl: bool = True
    """Admit only what has room for its whole current length, though only the first chunk is allocated."""
    num_speculative_tokens: int = 0
    seed: int = 0
    sglang: SglangConfig = field(default_factory=SglangConfig)
    """What only the policy `sglang` reads."""

    def __post_init__(self) -> None:
        """Fill in the preset of the policy and check what can be checked without a model."""
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                given = getattr(self, name)
                raise ConfigError(f"{name} must be one of {', '.join(choices)}; got {given!r}")
        for name in ("max_model_len", "kv_memory_bytes", "max_num_active_seqs"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(
                    f"{name} must be at least 1, or None for the default; got {value}"
                )
        sglang = self.policy == "sglang"
        if self.cache == "auto":
            object.__setattr__(self, "cache", "radix" if sglang else "hash")
        if self.block_size == 0:
            object.__setattr__(self, "block_size", 1 if sglang else 16)
        if self.cache != "none" and (self.cache == "radix") != sglang:
            raise ConfigError(
                f"policy {self.policy} cannot run on cache {self.cache}: sglang needs radix or none, "
                "the others hash, none or reserve"
            )
        limits = (self.block_size, self.max_num_batched_tokens, self.max_num_seqs)
        if min(limits) < 1:
            raise ConfigError(
                "block_size, max_num_batched_tokens and max_num_seqs must be at least 1"
            )
        if not 0 <= self.watermark < 1:
            raise ConfigError(f"watermark is a share of the pool in [0, 1), got {self.watermark}")
        if self.num_blocks is not None and self.num_blocks < 2:
            raise ConfigError("num_blocks must be at least 2: block 0 is never given out")
        if self.policy != "sglang" and self.max_num_batched_tokens < self.max_num_seqs:
            raise ConfigError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least max_num_seqs "
                f"({self.max_num_seqs}): each running sequence needs one token of the budget"
            )

    @property
    def looks_at_priority(self) -> bool:
        """Whether anything is decided by `Request.priority`."""
        if self.policy == "sglang":
            own = self.sglang
            evicts_by_it = self.cache == "radix" and own.radix_eviction_policy == "priority"
            return (
                own.enable_priority_scheduling
                or evicts_by_it
                or own.retraction_policy == "priority"
            )
        return self.policy == "vllm" and self.scheduling_policy == "priority"

    @property
    def enable_prefix_caching(self) -> bool:
        """Whether prompts share the blocks of what was computed before."""
        return self.cache in ("hash", "radix")

    def resolve(self, *, num_blocks: int, max_model_len: int) -> "EngineConfig":
        """A copy with what the loaded model and the memory allow.

        Raises ConfigError when a request of max_model_len could never be held, or never start.
        """
        # sglang books a block more than a request needs, and the booking must stay below the pool.
        spare = 2 * self.block_size + 1 if self.policy == "sglang" else 0
        if (num_blocks - 1) * self.block_size < max_model_len + spare:
            raise ConfigError(
                f"{num_blocks - 1} usable blocks of {self.block_size} tokens cannot hold one request of "
                f"max_model_len {max_model_len}: give more KV memory or lower max_model_len"
            )
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < max_model_len:
            raise ConfigError(
                "without chunked prefill a prompt must fit in one step: raise max_num_batched_tokens "
                f"({self.max_num_batched_tokens}) to max_model_len ({max_model_len})"
            )
        chunk = self.sglang.chunked_prefill_size
        if self.policy == "sglang" and chunk is not None and chunk < self.block_size:
            raise ConfigError(
                f"chunked_prefill_size ({chunk}) must be at least block_size ({self.block_size}): prompts "
                "are cut between blocks, so that none could ever start"
            )
        return replace(self, num_blocks=num_blocks, max_model_len=max_model_len)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the trace; what the policy does not read is left out."""
        values = asdict(self)
        if self.policy != "sglang":
            del values["sglang"]
        return values


CHOICES: dict[str, tuple[str, ...]] = {
    name: get_args(hint)
    for name, hint in get_type_hints(EngineConfig).items()
    if get_origin(hint) is Literal
}
"""The fields that take one of a few words."""
