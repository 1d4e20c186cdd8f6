"""Schedulers: who gets how many tokens in the next step. One file per policy, what they share in `base`."""

from engine.config import EngineConfig
from engine.kv.paged import PagedKV
from engine.kv.reserved import ReservedKV
from engine.scheduler.base import KV, Scheduler
from engine.scheduler.static import StaticScheduler
from engine.scheduler.vllm import VllmScheduler
from tracing.record import Recorder


def make_scheduler(config: EngineConfig, recorder: Recorder) -> Scheduler:
    """The scheduler of `config.policy` over the KV bookkeeping of `config.cache`."""
    kv: KV
    match config.cache:
        case "hash" | "none":
            kv = PagedKV(config, recorder)
        case "reserve":
            kv = ReservedKV(config, recorder)
    match config.policy:
        case "vllm":
            return VllmScheduler(config, kv, recorder)
        case "static":
            return StaticScheduler(config, kv, recorder)
