"""Schedulers: who gets how many tokens in the next step. One file per policy, what they share in `base`."""

from engine.config import EngineConfig
from engine.kv.paged import PagedKV
from engine.kv.radix import RadixKV
from engine.kv.reserved import ReservedKV
from engine.scheduler.base import Scheduler
from engine.scheduler.sglang import SglangScheduler
from engine.scheduler.static import StaticScheduler
from engine.scheduler.vllm import VllmScheduler
from tracing.record import Recorder


def make_scheduler(config: EngineConfig, recorder: Recorder) -> Scheduler:
    """The scheduler of `config.policy` over the KV bookkeeping of `config.cache`."""
    if config.policy == "sglang":
        return SglangScheduler(config, RadixKV(config, recorder), recorder)
    kv = (ReservedKV if config.cache == "reserve" else PagedKV)(config, recorder)
    if config.policy == "vllm":
        return VllmScheduler(config, kv, recorder)
    return StaticScheduler(config, kv, recorder)
