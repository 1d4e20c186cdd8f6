"""What the replays of SGLang's golden files build alike: the engine's parts, sequences, running requests."""

from typing import Any

from engine.config import EngineConfig
from engine.config_sglang import SglangConfig
from engine.kv.radix import RadixKV
from engine.request import Request, SamplingParams
from engine.sequence import Sequence
from tracing.record import NO_RECORDER

SAME_NAME = (
    *("schedule_policy", "schedule_conservativeness", "chunked_prefill_size", "max_prefill_tokens"),
    *("enable_mixed_chunk", "prefill_max_requests", "retraction_policy", "clip_max_new_tokens"),
)
RENAMED = {
    "policy": "schedule_policy",
    "eviction_policy": "radix_eviction_policy",
    "priority_scheduling": "enable_priority_scheduling",
    "low_values_first": "schedule_low_priority_values_first",
    "preemption_threshold": "priority_scheduling_preemption_threshold",
    "protected_threshold": "slru_protected_threshold",
    "threshold": "tlru_threshold",
    "next_prompt_estimate": "tlru_next_prompt_estimate",
}
ENDLESS = 1 << 20
"""A model length that no case reaches: what they test is bounded by the pool."""


def engine_config(config: dict[str, Any]) -> EngineConfig:
    """Our configuration for a case's."""
    flat = config | config.get("eviction_policy_config", {})
    fields = {name: flat[name] for name in SAME_NAME if name in flat}
    fields |= {
        ours: flat[theirs] for theirs, ours in RENAMED.items() if flat.get(theirs) is not None
    }
    fields.setdefault("chunked_prefill_size", None)
    page_size = config["page_size"]
    return EngineConfig(
        policy="sglang",
        cache="none" if config.get("radix_disabled") else "radix",
        block_size=page_size,
        num_blocks=config.get("pool_tokens", 4096) // page_size + 1,
        max_model_len=ENDLESS,
        max_num_seqs=config.get("max_running_requests", ENDLESS),
        seed=config.get("python_random_seed", 0),
        sglang=SglangConfig(**fields),
    )


def make_kv(config: dict[str, Any]) -> RadixKV:
    """An empty pool and tree."""
    return RadixKV(engine_config(config), NO_RECORDER)


def make_request(number: int, spec: dict[str, Any]) -> Request:
    """A request of a golden file; token 2 ends it."""
    params = SamplingParams(
        temperature=0,
        max_tokens=spec.get("max_new", 16),
        ignore_eos=spec.get("ignore_eos", False),
    )
    return Request(
        request_id=number,
        prompt_token_ids=spec["tokens"],
        params=params,
        arrival_ns=number,
        eos_token_id=2,
        priority=spec.get("priority", 0),
        cache_salt=spec.get("cache_salt"),
        extra_key=spec.get("extra_key"),
        routing_key=spec.get("routing_key"),
    )


def number_by_name(specs: list[dict[str, Any]]) -> dict[str, int]:
    """Request ids in the order of names, which breaks ties upstream."""
    return {rid: i for i, rid in enumerate(sorted(spec["rid"] for spec in specs))}


def insert(kv: RadixKV, spec: dict[str, Any]) -> None:
    """Put tokens into the tree, as somebody who computed all of them."""
    blocks = kv.pool.take(len(spec["tokens"]) // kv.block_size)
    namespace = spec.get("extra_key"), spec.get("cache_salt") or None
    done = kv.cache.insert(spec["tokens"], blocks, namespace, priority=spec.get("priority", 0))
    for run in done.duplicates:
        kv.put_back(run)


def extend(kv: RadixKV, seq: Sequence, end: int) -> None:
    """Prefill up to a length; the first time whatever is cached is used."""
    if not kv.holds(seq):
        kv.admit(seq, kv.lookup(seq))
    num_tokens = end - seq.num_computed_tokens
    kv.make_room(num_tokens + (kv.block_size if kv.block_size > 1 else 0), None)
    kv.append(seq, num_tokens)
    seq.num_computed_tokens = end


def decode(kv: RadixKV, seq: Sequence, token: int) -> None:
    """One decode step: room for the newest token, then the next one."""
    kv.make_room(kv.block_size, None)
    kv.append(seq, 1)
    seq.num_computed_tokens += 1
    seq.token_ids.append(token)


def run_up(kv: RadixKV, number: int, spec: dict[str, Any]) -> Sequence:
    """A request that has produced `generated` tokens and waits for its next decode."""
    seq = Sequence(make_request(number, spec), 0)
    extend(kv, seq, seq.num_tokens)
    seq.token_ids.append(0)
    kv.checkpoint(seq)
    for _ in range(spec.get("generated", 1) - 1):
        decode(kv, seq, 0)
    return seq
