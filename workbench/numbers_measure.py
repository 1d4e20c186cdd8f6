"""The worked numbers on our own engine: real schedulers, real caches, no weights.

Whoever claims "64 tokens again: 48 cached" should see the scheduler do it. A scheduler does not look at token
values, so an executor that invents them is enough to run the very code that serves.

Invariant: nothing here computes with the formula that it is compared to.
"""

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from engine.batch import Batch, Row, StepOutput
from engine.config import EngineConfig
from engine.core import EngineCore
from engine.errors import CapacityError
from engine.kv.block_pool import BlockPool
from engine.memory import plan
from engine.model.config import ModelConfig
from engine.request import Request, SamplingParams
from engine.scheduler import make_scheduler
from interview.numbers.worked import Value
from tracing.record import NO_RECORDER, Code

Values = Mapping[str, Value]


class InventedTokens:
    """Stands in for a model: a new token for every row that samples, and a note of each batch."""

    depth = 1

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self._outputs: deque[StepOutput] = deque()
        self._next = itertools.count(1_000_000)  # never a prompt's token

    def submit(self, batch: Batch) -> None:
        """Note the batch and answer it."""
        self.batches.append(batch)
        rows = tuple((next(self._next),) if row.samples else () for row in batch.rows)
        self._outputs.append(StepOutput(rows))

    def collect(self) -> StepOutput:
        """The oldest answer."""
        return self._outputs.popleft()

    def close(self) -> None:
        """Nothing is held."""


def measure(name: str, values: Values) -> dict[str, float]:
    """Our engine's values by line key; empty where it has none."""
    measures: dict[str, Callable[..., dict[str, float]]] = {
        "kv": _kv,
        "rounds": _rounds,
        "request-r": _request_r,
        "repeat": _repeat,
        "shared-prefix": _shared,
    }
    return measures[name](**values) if name in measures else {}


def _core(room: int, **settings: object) -> tuple[EngineCore, InventedTokens]:
    """An engine core with KV room for so many tokens."""
    block_size = settings.get("block_size", 16)
    assert isinstance(block_size, int)
    config = EngineConfig(
        num_blocks=2 * (room // block_size + 2),
        max_model_len=room,
        max_num_batched_tokens=max(room, 2048),
        **settings,  # type: ignore[arg-type]  # field names of EngineConfig, chosen below
    )
    executor = InventedTokens()
    return EngineCore(make_scheduler(config, NO_RECORDER), executor, NO_RECORDER), executor


def _run(core: EngineCore, prompts: Sequence[list[int]], outputs: Sequence[int]) -> None:
    """Send requests together and step until all have ended."""
    first = core.scheduler.num_steps  # ids need only differ within a core
    for i, (prompt, max_tokens) in enumerate(zip(prompts, outputs, strict=True)):
        params = SamplingParams(temperature=0, max_tokens=max_tokens)
        number = 1000 * first + i
        core.add(
            Request(request_id=number, prompt_token_ids=prompt, params=params, arrival_ns=number)
        )
    while core.has_work:
        core.step()


def _hit(rows: Sequence[Row]) -> Row:
    """The last admission among the rows: its computed tokens are exactly the prefix hit."""
    return [row for row in rows if row.code == Code.ADMIT_NEW][-1]


def _twice(first: list[int], second: list[int], block_size: int, policy: str = "vllm") -> Row:
    """Admission of the second prompt after the first has run."""
    core, executor = _core(len(second) + 64, policy=policy, block_size=block_size)
    _run(core, [first], [1])
    _run(core, [second], [1])
    return _hit([row for batch in executor.batches for row in batch.rows])


def _kv(
    *,
    layers: int,
    kv_heads: int,
    head_size: int,
    value_bytes: int,
    block_size: int,
    pool_mib: float,
) -> dict[str, float]:
    """One block as the engine allocates it (on a device that counts bytes and holds none), and its pool."""
    import torch

    from engine.model.attention import allocate_kv

    dtype = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32}.get(value_bytes)
    if dtype is None:
        return {}
    cache = allocate_kv(layers, (1, block_size, kv_heads, head_size), dtype, torch.device("meta"))
    block = sum(tensor.nbytes for pair in cache for tensor in pair)
    found: dict[str, float] = {"token": block / block_size, "block": block}
    shape = {"num_layers": layers, "num_kv_heads": kv_heads, "head_dim": head_size}
    config = EngineConfig(block_size=block_size, kv_memory_bytes=max(1, int(pool_mib * 2**20)))
    try:
        ledger = plan(_model(**shape), config, dtype_bytes=value_bytes, available_bytes=2**60)
    except CapacityError:  # no request at all would fit
        return found
    given_out = BlockPool(ledger.num_blocks).num_free
    tokens = ledger.kv_bytes // ledger.kv_bytes_per_token
    usable = given_out * ledger.block_size
    return found | {
        "blocks": ledger.num_blocks,
        "tokens": tokens,
        "given_out": given_out,
        "usable": usable,
    }


def _model(*, num_layers: int, num_kv_heads: int, head_dim: int) -> ModelConfig:
    """A model with this KV shape; for the KV pool nothing else of it counts."""
    return ModelConfig(
        family="llama",
        vocab_size=1,
        hidden_size=1,
        intermediate_size=1,
        num_layers=num_layers,
        num_heads=num_kv_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        rms_norm_eps=1e-5,
        rope_theta=1e4,
        rope_scaling=None,
        max_position_embeddings=2**30,
        tie_word_embeddings=True,
        qkv_bias=False,
        o_bias=False,
        mlp_bias=False,
        qk_norm=False,
        bos_token_id=None,
        eos_token_ids=(),
    )


def _rounds(*, outputs: tuple[int, ...], slots: int) -> dict[str, float]:
    """Steps of the static and of the continuous scheduler; a prompt of one token costs no step of its own."""
    found: dict[str, float] = {}
    for key, policy in (("static", "static"), ("continuous", "vllm")):
        core, executor = _core(max(outputs) + 16, policy=policy, max_num_seqs=slots)
        _run(core, [[10 + i] for i in range(len(outputs))], outputs)
        batches = executor.batches
        busy = sum(row.code != Code.PAD_STATIC for batch in batches for row in batch.rows)
        admitted = [
            step
            for step, batch in enumerate(batches)
            for row in batch.rows
            if row.code in (Code.ADMIT_NEW, Code.ADMIT_STATIC)
        ]
        found[key] = len(batches)
        found[f"{key}_used"] = 100 * busy / (len(batches) * slots)
        found[f"{key}_wait"] = admitted[-1]
    return found


def _request_r(*, prompt: int, common: int, unit: int) -> dict[str, float]:
    """R after a request that left `common` tokens of it in the cache: its two first steps."""
    r = list(range(prompt))
    warm = [*r[:common], -1]
    core, executor = _core(prompt + 64, block_size=unit)
    _run(core, [warm], [1])
    before = len(executor.batches)
    _run(core, [r], [2])
    rows = [row for batch in executor.batches[before:] for row in batch.rows]
    admitted = _hit(rows)
    found: dict[str, float] = {
        "cached": admitted.num_computed_tokens,
        "computed": admitted.num_scheduled_tokens,
        "cached_16": _twice(warm, r, 16).num_computed_tokens,
    }
    first, second = rows
    # KV is written for what a row computes, and X is all that the second step computes.
    assert second.num_scheduled_tokens == 1
    found["logits_from"] = first.num_computed_tokens + first.num_scheduled_tokens - 1
    found["x_position"] = second.num_computed_tokens
    found["x_written"] = 1 + rows.index(second)
    return found


def _repeat(*, lengths: tuple[int, ...], block_size: int) -> dict[str, float]:
    """The same prompt sent twice."""
    found: dict[str, float] = {}
    for n in lengths:
        row = _twice(list(range(n)), list(range(n)), block_size)
        found[f"cached_{n}"] = row.num_computed_tokens
        found[f"computed_{n}"] = row.num_scheduled_tokens
    return found


def _shared(*, common: int, own: int, block_size: int, requests: int) -> dict[str, float]:
    """Requests in turn with a common beginning; page size 1 is the policy `sglang`."""
    prefix = list(range(common))
    prompts = [prefix + [100_000 * (i + 1) + j for j in range(own)] for i in range(requests)]
    core, executor = _core(common + own + 64, block_size=block_size)
    for prompt in prompts:
        _run(core, [prompt], [1])
    rows = [row for batch in executor.batches for row in batch.rows]
    found: dict[str, float] = {"total_with": sum(row.num_scheduled_tokens for row in rows)}
    if requests > 1:
        second = _hit(rows)
        found["reused"] = second.num_computed_tokens
        found["blocks"] = second.num_computed_tokens / block_size
        found["computed"] = second.num_scheduled_tokens
        page = _twice(prompts[0], prompts[1], 1, policy="sglang")
        found["reused_page1"] = page.num_computed_tokens
    return found
