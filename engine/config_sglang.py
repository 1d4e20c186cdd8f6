"""What only the sglang preset can be told; names and defaults as SGLang's command line has them.

`page_size` is `EngineConfig.block_size`, `max_running_requests` is `max_num_seqs`.
Source: SGLang 0.5.23 `sglang/srt/arg_groups/`, and the environment variables named below.
"""

from dataclasses import dataclass
from typing import Literal

from engine.errors import ConfigError

SchedulePolicy = Literal[
    "fcfs", "lpm", "dfs-weight", "lof", "random", "routing-key", "hrrn", "shortest-prefill-first"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangConfig:
    """Raises ConfigError on values that cannot work."""

    schedule_policy: SchedulePolicy = "fcfs"
    """Order of the waiting queue. lpm, dfs-weight, hrrn and shortest-prefill-first look at the cache."""
    schedule_conservativeness: float = 1.0
    """Scales how much output is reserved for running requests; small values risk retractions."""
    chunked_prefill_size: int | None = 2048
    """Prompt tokens of one step, decodes included if mixed; None: prompts are never cut."""
    max_prefill_tokens: int = 16384
    """The same without cutting: the first prompt of a step may exceed it."""
    enable_mixed_chunk: bool = False
    """Decodes join a prefill step as one-token extends, instead of standing still."""
    prefill_max_requests: int | None = None
    """Requests admitted in one step; None: no limit."""
    radix_eviction_policy: Literal[
        "lru", "lfu", "slru", "priority", "tlru", "fifo", "mru", "filo"
    ] = "lru"
    slru_protected_threshold: int = 2
    """Hits from which slru protects a node."""
    tlru_threshold: int = 0
    """Prompt tokens that may be computed within the latency target (tlru)."""
    tlru_next_prompt_estimate: int = 0
    """Tokens that the next turn of a conversation is expected to add (tlru)."""
    retraction_policy: Literal["length", "priority"] = "length"
    enable_priority_scheduling: bool = False
    schedule_low_priority_values_first: bool = False
    """False: the larger `Request.priority`, the sooner; True as in vLLM."""
    priority_scheduling_preemption_threshold: int = 10
    """By how much an arrival must outrank a running request to push it out."""
    disable_priority_preemption: bool = False
    clip_max_new_tokens: int = 4096
    """No request is expected to produce more (SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION)."""

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        if self.schedule_conservativeness <= 0:
            raise ConfigError(
                f"schedule_conservativeness must be above 0, got {self.schedule_conservativeness}"
            )
        limits = (self.chunked_prefill_size, self.max_prefill_tokens, self.prefill_max_requests)
        if min(limit for limit in limits if limit is not None) < 1:
            raise ConfigError(
                "chunked_prefill_size, max_prefill_tokens and prefill_max_requests must be at least 1 "
                "(None switches the first and the last off)"
            )
        if self.enable_mixed_chunk and self.chunked_prefill_size is None:
            raise ConfigError("enable_mixed_chunk needs a chunked_prefill_size")

    @property
    def enable_priority_preemption(self) -> bool:
        """Whether an important arrival may push out running requests."""
        return self.enable_priority_scheduling and not self.disable_priority_preemption
