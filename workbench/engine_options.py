"""The engine's settings as command-line options, named as upstream names them.

One table: option, field of `EngineConfig` or of its `sglang` part, type, help. What is not given keeps the
preset's default.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from engine.config import EngineConfig
from engine.config_sglang import SglangConfig

Command = TypeVar("Command", bound=Callable[..., Any])
MIB = 2**20

POLICIES = click.Choice(["vllm", "sglang", "static"])
CACHES = click.Choice(["auto", "hash", "radix", "none", "reserve"])
ORDERS = click.Choice(
    ["fcfs", "lpm", "dfs-weight", "lof", "random", "routing-key", "hrrn", "shortest-prefill-first"]
)
EVICTIONS = click.Choice(["lru", "lfu", "slru", "priority", "tlru", "fifo", "mru", "filo"])

ENGINE: dict[str, tuple[str, Any, str]] = {
    "--model": ("model", str, "Known name, local folder, or hub id."),
    "--policy": ("policy", POLICIES, "Scheduler preset."),
    "--cache": ("cache", CACHES, "Prefix cache, or contiguous reservation; auto: the policy's."),
    "--dtype": ("dtype", click.Choice(["auto", "float32", "bfloat16"]), "Weights and KV."),
    "--block-size": ("block_size", int, "Tokens per KV block."),
    "--num-blocks": ("num_blocks", int, "KV blocks in the pool; default: as many as fit."),
    "--kv-memory-mib": ("kv_memory_bytes", int, "Memory for KV in MiB; default: 1 GiB or less."),
    "--max-model-len": ("max_model_len", int, "Prompt plus output, in tokens."),
    "--max-num-batched-tokens": ("max_num_batched_tokens", int, "Token budget of a step."),
    "--max-num-seqs": ("max_num_seqs", int, "Sequences that may run at once."),
    "--long-prefill-token-threshold": (
        "long_prefill_token_threshold",
        int,
        "Cap on one prompt's tokens per step while others exist.",
    ),
    "--scheduling-policy": ("scheduling_policy", click.Choice(["fcfs", "priority"]), "Queue."),
    "--watermark": ("watermark", float, "Share of the pool kept free at admission."),
    "--seed": ("seed", int, "Of sampling, where a request has none."),
}
SGLANG: dict[str, tuple[str, Any, str]] = {
    "--schedule-policy": ("schedule_policy", ORDERS, "Order of the waiting queue."),
    "--chunked-prefill-size": ("chunked_prefill_size", int, "Prompt tokens per step."),
    "--max-prefill-tokens": ("max_prefill_tokens", int, "The same, without cutting."),
    "--schedule-conservativeness": ("schedule_conservativeness", float, "Output room kept."),
    "--radix-eviction-policy": ("radix_eviction_policy", EVICTIONS, "What the tree drops first."),
}


def engine_options(command: Command) -> Command:
    """Add all engine options to a click command; it gets them as keyword arguments."""
    flags = [
        click.option("--no-enable-prefix-caching", is_flag=True, help="No prefix is ever shared."),
        click.option("--no-enable-chunked-prefill", is_flag=True, help="Prompts are never cut."),
        click.option("--enable-mixed-chunk", is_flag=True, help="sglang: decodes join prefill."),
    ]
    for name, (field, kind, text) in reversed(SGLANG.items()):
        command = click.option(name, field, type=kind, help=f"sglang: {text}")(command)
    for flag in flags:
        command = flag(command)
    for name, (field, kind, text) in reversed(ENGINE.items()):
        names = (name, "--page-size") if name == "--block-size" else (name,)
        command = click.option(*names, field, type=kind, help=text)(command)
    return command


def make_config(given: dict[str, Any]) -> EngineConfig:
    """The configuration that the options ask for. Raises ConfigError if it cannot work."""
    values = {field: given[field] for field, _, _ in ENGINE.values() if given[field] is not None}
    sglang = {field: given[field] for field, _, _ in SGLANG.values() if given[field] is not None}
    if "kv_memory_bytes" in values:
        values["kv_memory_bytes"] *= MIB
    if given["no_enable_prefix_caching"]:
        values["cache"] = "none"
    if given["no_enable_chunked_prefill"]:
        values["enable_chunked_prefill"] = False
        sglang["chunked_prefill_size"] = None
    if given["enable_mixed_chunk"]:
        sglang["enable_mixed_chunk"] = True
    if sglang:
        values["sglang"] = SglangConfig(**sglang)
    return EngineConfig(**values)
