"""Putting a core together: model, memory, scheduler over KV bookkeeping, executor.

The one place that knows all of them. What can be known before anything is loaded is checked before anything is
loaded: the ledger is made from the model's config, so that a pool that cannot fit fails at once.
"""

from importlib.metadata import version

from engine.config import EngineConfig
from engine.core import EngineCore
from engine.executor.local import LocalExecutor
from engine.memory import Ledger, plan
from engine.messages import Ready
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
    folder = resolve_model(config.model)
    model_config = load_config(folder)
    device = choose_device()
    dtype = choose_dtype(config.dtype, device)
    ledger = plan(
        model_config,
        config,
        dtype_bytes=dtype.itemsize,
        available_bytes=available_bytes(device),
    )
    config = config.resolve(num_blocks=ledger.num_blocks, max_model_len=ledger.max_model_len)
    model = Llama(model_config, load_weights(folder, model_config, dtype, device))
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
    )
    return core, ready


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
