"""The memory ledger: what the engine will take, written down before it takes anything.

Four entries: weights, workspace (activations, masks, logits of the largest step), KV pool, and what is left.
The KV pool is the only one that can be chosen, and everything about capacity follows from it: how many
blocks, so how many tokens can be resident, so how long one request may be and how many run side by side.

    available |== weights ==|= workspace =|======== KV pool ========|.......... left ..........|
                                            num_blocks * block_size * kv_bytes_per_token

Invariant: weights + workspace + KV pool <= available, or CapacityError says by how much it fails.
Source: the idea of vLLM 0.33 `v1/core/kv_cache_utils.py` (get_kv_cache_configs); where vLLM measures a dummy
step, this estimates: on a CPU there is no allocator to ask.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.config import EngineConfig
from engine.errors import CapacityError, ConfigError
from engine.model.config import ModelConfig

GIB = 2**30
DEFAULT_KV_BYTES = GIB
DEFAULT_KV_SHARE = 0.5
"""Without a budget the pool takes at most this share of what weights and workspace leave."""
KvRule = Literal["num_blocks", "kv_memory_bytes", "default", "share"]
SAMPLING_BYTES = 24
"""Per logit, besides itself: four float32 copies (raw, shaped, scaled, probability) and a float64 sum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """Memory by use, in bytes, and what it buys."""

    available_bytes: int
    """Free before anything was loaded."""
    weights_bytes: int
    workspace_bytes: int
    kv_bytes: int
    kv_bytes_per_token: int
    """Over all layers."""
    block_size: int
    num_blocks: int
    """Null block included."""
    max_model_len: int
    """Prompt plus output of one request, in tokens."""
    kv_rule: KvRule
    """What decided the size of the pool."""

    def explain(self) -> str:
        """Whether the same settings will give the same pool at the next start, and why."""
        match self.kv_rule:
            case "num_blocks" | "kv_memory_bytes":
                return f"The KV pool is what {self.kv_rule} says, at every start."
            case "default":
                return (
                    f"The KV pool has its default, {_gib(DEFAULT_KV_BYTES)}, at every start: there is room "
                    "enough for it."
                )
            case "share":
                return (
                    f"The KV pool is {DEFAULT_KV_SHARE:.0%} of the memory that was free beside weights and "
                    "workspace, because that was short: it varies from start to start. Set kv_memory_bytes "
                    "(--kv-memory-mib) or num_blocks to fix it."
                )

    @property
    def left_bytes(self) -> int:
        """What the engine does not touch."""
        return self.available_bytes - self.weights_bytes - self.workspace_bytes - self.kv_bytes

    def as_dict(self) -> dict[str, int]:
        """Bytes by use."""
        return {
            "available": self.available_bytes,
            "weights": self.weights_bytes,
            "workspace": self.workspace_bytes,
            "kv": self.kv_bytes,
            "left": self.left_bytes,
        }


def plan(
    model: ModelConfig, config: EngineConfig, *, dtype_bytes: int, available_bytes: int
) -> Ledger:
    """Divide the available memory. `dtype_bytes`: size of one weight and one KV value.

    Raises CapacityError when it does not fit, ConfigError for a length that the model cannot reach.
    """
    limit = model.max_position_embeddings
    if config.max_model_len is not None and config.max_model_len > limit:
        raise ConfigError(
            f"max_model_len {config.max_model_len} is beyond the model's limit, {limit}"
        )
    weights = model.num_parameters * dtype_bytes
    workspace = _workspace_bytes(model, config, dtype_bytes, config.max_model_len or limit)
    room = available_bytes - weights - workspace
    if room <= 0:
        raise CapacityError(
            f"the model does not fit: weights {_gib(weights)} and workspace {_gib(workspace)} of "
            f"{_gib(available_bytes)} available. Choose a smaller model, dtype bfloat16, or lower "
            f"max_num_batched_tokens ({config.max_num_batched_tokens})"
        )
    token_bytes = model.kv_values_per_token * dtype_bytes
    num_blocks, kv_rule = _num_blocks(config, token_bytes, room)
    kv = num_blocks * config.block_size * token_bytes
    # Attention fetches the blocks of one layer at a time, padded to at most twice as many.
    workspace += 2 * kv // model.num_layers
    if weights + workspace + kv > available_bytes:
        raise CapacityError(
            f"the KV pool does not fit: {num_blocks} blocks of {config.block_size} tokens take {_gib(kv)}, "
            f"beside weights {_gib(weights)} and workspace {_gib(workspace)}, of {_gib(available_bytes)} "
            "available. Lower num_blocks or kv_memory_bytes, or leave both out"
        )
    # What sglang books ahead of a request's need; `EngineConfig.resolve` insists on the same.
    booked_ahead = 2 * config.block_size + 1 if config.policy == "sglang" else 0
    held = (num_blocks - 1) * config.block_size - booked_ahead  # the null block holds nothing
    if held < 1:
        raise CapacityError(
            f"{num_blocks} block(s) of {config.block_size} tokens ({_gib(kv)}) are too few to hold any "
            f"request: give KV memory for at least {-(-(booked_ahead + 1) // config.block_size) + 1} blocks"
        )
    return Ledger(
        available_bytes=available_bytes,
        weights_bytes=weights,
        workspace_bytes=workspace,
        kv_bytes=kv,
        kv_bytes_per_token=token_bytes,
        block_size=config.block_size,
        num_blocks=num_blocks,
        max_model_len=config.max_model_len or min(limit, held),
        kv_rule=kv_rule,
    )


def render(ledger: Ledger) -> str:
    """The ledger as a small table for a terminal."""
    tokens = (ledger.num_blocks - 1) * ledger.block_size
    rows = [
        ("available", ledger.available_bytes, ""),
        ("weights", ledger.weights_bytes, ""),
        ("workspace", ledger.workspace_bytes, "estimate for the largest step"),
        (
            "KV pool",
            ledger.kv_bytes,
            f"{ledger.num_blocks} blocks of {ledger.block_size}: {tokens} tokens of "
            f"{ledger.kv_bytes_per_token / 1024:.1f} KiB; one request up to {ledger.max_model_len}",
        ),
        ("left", ledger.left_bytes, ""),
    ]
    return "\n".join(f"{name:<10} {_gib(size):>10}  {note}".rstrip() for name, size, note in rows)


def host_available_bytes(root: Path = Path("/")) -> int:
    """Memory that this process can still take: the system's, or its control group's if that is less."""
    free = [_meminfo_bytes(root), _cgroup_bytes(root / "sys/fs/cgroup")]
    known = [size for size in free if size is not None]
    return min(known) if known else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _num_blocks(config: EngineConfig, token_bytes: int, room: int) -> tuple[int, KvRule]:
    if config.num_blocks is not None:
        return config.num_blocks, "num_blocks"
    rule: KvRule = "default"
    budget, share = DEFAULT_KV_BYTES, int(DEFAULT_KV_SHARE * room)
    if config.kv_memory_bytes:
        budget, rule = config.kv_memory_bytes, "kv_memory_bytes"
    elif share < budget:
        budget, rule = share, "share"
    return budget // (config.block_size * token_bytes), rule


def _workspace_bytes(
    model: ModelConfig, config: EngineConfig, dtype_bytes: int, max_model_len: int
) -> int:
    """The largest step: every token of the budget computed, every sequence sampled."""
    num_tokens = config.max_num_batched_tokens
    num_rows = min(config.max_num_seqs, num_tokens)
    q_size, kv_size = model.num_heads * model.head_dim, model.num_kv_heads * model.head_dim
    stream = 4 * model.hidden_size
    attention = 3 * q_size + 3 * (q_size + kv_size)
    mlp = 4 * model.intermediate_size
    activations = num_tokens * (stream + max(attention, mlp)) * dtype_bytes
    masks = num_tokens * (model.num_heads // model.num_kv_heads) * max_model_len * dtype_bytes
    logits = num_rows * model.vocab_size * (dtype_bytes + SAMPLING_BYTES)
    return activations + masks + logits


def _meminfo_bytes(root: Path) -> int | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    values = dict(line.split(":", 1) for line in lines if ":" in line)
    found = values.get("MemAvailable")
    return int(found.split()[0]) * 1024 if found else None


def _cgroup_bytes(folder: Path) -> int | None:
    """Limit minus use, version 2 or 1. Cached files count as used there but are given back on demand."""
    versions = [
        ("memory.max", "memory.current", "memory.stat"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
    ]
    for limit_name, usage_name, stat_name in versions:
        try:
            limit, usage = (
                (folder / name).read_text().strip() for name in (limit_name, usage_name)
            )
            stat = dict(line.split() for line in (folder / stat_name).read_text().splitlines())
        except OSError:
            continue
        if limit != "max":
            return max(int(limit) - int(usage) + int(stat.get("inactive_file", 0)), 0)
    return None


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / GIB:.2f} GiB"
