"""The presets side by side: what vLLM and SGLang choose by default, and where Cutaway differs.

A preset (`--policy`) is a scheduler, a cache and the defaults that belong to them. Some defaults of
upstream are made for a GPU that an engine owns; here they would be wrong, and each such place is listed
with its reason. So "like vLLM 0.33" is a statement that can be checked line by line, not a mood.

Source: vLLM 0.33.0 `EngineArgs` on a CPU server; SGLang 0.5.23 `ServerArgs`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

from engine.config import EngineConfig
from engine.config_sglang import SglangConfig

Policy = Literal["vllm", "sglang", "static"]
TITLES: dict[Policy, str] = {
    "vllm": "vLLM 0.33.0",
    "sglang": "SGLang 0.5.23",
    "static": "static batching, the baseline",
}
MACHINE = {"model", "num_blocks", "kv_memory_bytes", "max_model_len", "seed"}
"""What belongs to a machine and a model, not to a policy."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A default of upstream that Cutaway's preset does not repeat."""

    policy: Policy
    field: str
    theirs: str
    why: str


NOT_REPEATED = (
    Upstream(
        *("vllm", "kv_memory_bytes", "gpu_memory_utilization 0.92 of the device"),
        "a CPU's memory is shared with everything else that runs: 1 GiB, unless told otherwise",
    ),
    Upstream(
        *("vllm", "max_num_batched_tokens", "2048 on CPU, 8192 or more on a GPU"),
        "the value for CPUs is taken everywhere, so that a run looks the same on both",
    ),
    Upstream(
        *("sglang", "kv_memory_bytes", "mem_fraction_static, measured after loading"),
        "as for vLLM: 1 GiB, unless told otherwise",
    ),
    Upstream(
        *("sglang", "max_num_seqs", "max_running_requests from the pool's size, up to 4096"),
        "one limit for all presets, so that they can be compared",
    ),
    Upstream(
        *("sglang", "sglang.chunked_prefill_size", "by device memory, 2048 to 16384"),
        "the smallest of their values: steps stay short where computing is slow",
    ),
)
WHY = {
    "policy": (
        "who gets how many tokens in a step: one budget (vllm), prefill first (sglang), fixed batches "
        "(static)"
    ),
    "cache": (
        "hash finds whole blocks by a chain of hashes, radix finds any length in a tree of tokens"
    ),
    "block_size": "a tree shares single tokens; hashes need blocks to be worth their cost",
}
"""Why presets differ where they do."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting that is not as a preset has it."""

    field: str
    here: Any
    preset: Any
    why: str


def flat(config: EngineConfig) -> dict[str, Any]:
    """All settings by name; SGLang's own as `sglang.x`."""
    values = {field.name: getattr(config, field.name) for field in fields(config)}
    sglang: SglangConfig = values.pop("sglang")
    return values | {
        f"sglang.{field.name}": getattr(sglang, field.name) for field in fields(sglang)
    }


def differences(config: EngineConfig, policy: Policy) -> Iterator[Difference]:
    """Where a configuration is not what the preset alone would be; the machine's settings are left out."""
    here, preset, own = flat(config), flat(EngineConfig(policy=policy)), config.policy == policy
    only_theirs = "sglang." if "sglang" not in (config.policy, policy) else ""
    for field, value in here.items():
        if field in MACHINE or value == preset[field]:
            continue
        if only_theirs and field.startswith(only_theirs):
            continue  # nobody here reads it
        why = "set for this server" if own else WHY.get(field, "set for this server")
        yield Difference(field, value, preset[field], why)
