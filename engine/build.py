"""Putting a core together: model, memory, scheduler over KV bookkeeping, executor.

The one place that knows all of them. What can be known before anything is loaded is checked before anything
is loaded: the ledger is made from the model's config, so that a pool that cannot fit fails at once.
"""

import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import torch

from engine.config import EngineConfig
from engine.core import EngineCore
from engine.executor.local import LocalExecutor
from engine.memory import Ledger, plan
from engine.messages import Ready, StartPhase
from engine.model.config import load_config
from engine.model.device import available_bytes, choose_device, choose_dtype
from engine.model.hub import resolve_model
from engine.model.llama import Llama
from engine.model.weights import load_weights
from engine.scheduler import make_scheduler
from tracing.record import Recorder

UPSTREAM = {"vllm": "0.33.0", "sglang": "0.5.23"}
"""The versions whose decisions the policies repeat."""


def build_core(config: EngineConfig, recorder: Recorder) -> tuple[EngineCore, Ready]:
    """Load the model, divide the memory, and return a core ready for requests.

    Raises ModelError, ConfigError or CapacityError with what to change.
    """
    phases = _Phases()
    folder = resolve_model(config.model)
    model_config = load_config(folder)
    ledger, dtype, device = plan_memory(config, folder)
    config = config.resolve(num_blocks=ledger.num_blocks, max_model_len=ledger.max_model_len)
    phases.next("load weights")
    model = Llama(model_config, load_weights(folder, model_config, dtype, device))
    phases.next("allocate KV pool")
    scheduler = make_scheduler(config, recorder)
    executor = LocalExecutor(model, config, recorder)
    core = EngineCore(scheduler, executor, recorder)
    described = config.as_dict() | {
        "dtype": str(dtype).removeprefix("torch."),
        "device": str(device),
    }
    _describe(recorder, config, described, ledger)
    ready = Ready(
        model_dir=str(folder),
        max_model_len=ledger.max_model_len,
        num_blocks=ledger.num_blocks,
        block_size=config.block_size,
        ledger=ledger.as_dict(),
        config=described,
        proc_id=recorder.proc_id,
        engine_id=recorder.engine_id,
        phases=phases.end(),
    )
    return core, ready


def plan_memory(config: EngineConfig, folder: Path) -> tuple[Ledger, torch.dtype, torch.device]:
    """The ledger of a model on this machine, before anything is loaded.

    Raises ModelError, ConfigError or CapacityError with what to change.
    """
    device = choose_device()
    dtype = choose_dtype(config.dtype, device)
    available = available_bytes(device)
    model = load_config(folder)
    ledger = plan(model, config, dtype_bytes=dtype.itemsize, available_bytes=available)
    return ledger, dtype, device


class _Phases:
    """Parts of a start, one after the other."""

    def __init__(self) -> None:
        self._marks = [("plan memory", time.perf_counter_ns())]

    def next(self, name: str) -> None:
        """The part before is over; this one begins."""
        self._marks.append((name, time.perf_counter_ns()))

    def end(self) -> tuple[StartPhase, ...]:
        """The last part is over: all of them."""
        self.next("")
        pairs = pairwise(self._marks)
        return tuple(StartPhase(name, start, end) for (name, start), (_, end) in pairs)


def _describe(
    recorder: Recorder, config: EngineConfig, described: dict[str, object], ledger: Ledger
) -> None:
    versions = {"cutaway": version("cutaway"), "torch": version("torch")}
    if config.policy in UPSTREAM:
        versions[f"{config.policy} followed"] = UPSTREAM[config.policy]
    recorder.describe_run(
        policy=config.policy,
        cache_kind=config.cache,
        block_size=config.block_size,
        num_blocks=config.num_blocks,
        model=config.model,
        config=described | {"ledger": ledger.as_dict(), "versions": versions},
    )
