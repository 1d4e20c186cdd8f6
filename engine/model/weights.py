"""From safetensors files to the few tensors a forward pass multiplies with.

Projections that read the same input are one matrix: Q, K and V stacked by rows, gate and up likewise. One
large product is faster than three small ones, and the names below are all that `llama.py` knows.

    qkv      [(H + 2K) * D, hidden]   rows: all query heads, then all key heads, then all value heads
    gate_up  [2 * intermediate, hidden]

Invariant: each tensor of the checkpoint is used exactly once; a missing or an unexpected one is an error.
Source: fused names as in vLLM 0.33 `model_executor/models/llama.py` (packed_modules_mapping).
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import ModelError
from engine.model.config import ModelConfig
from engine.model.linear import Linear

INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One decoder layer."""

    input_norm: Tensor
    qkv: Linear
    qk_norm: Tensor | None
    """[H + K, D] one row for all query heads, another for all key heads; None: not in this family."""
    o: Linear
    post_norm: Tensor
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWeights:
    """All of a model. `head` is `embed` itself where they are tied. Shapes [vocab, hidden]."""

    embed: Tensor
    layers: tuple[LayerWeights, ...]
    norm: Tensor
    head: Tensor


def load_weights(
    folder: Path, config: ModelConfig, dtype: torch.dtype, device: torch.device
) -> ModelWeights:
    """Read, cast, fuse and place the weights.

    Raises ModelError when files are missing or damaged, or when their tensors do not fit the config.
    """
    with ExitStack() as stack:
        files = []
        for path in _weight_files(folder):
            try:
                files.append(stack.enter_context(safe_open(path, framework="pt")))
            except (OSError, SafetensorError) as error:
                raise ModelError(
                    f"{path} cannot be read ({error}): fetch the model again"
                ) from error
        place = {name: file for file in files for name in file.keys()}  # noqa: SIM118 (not a dict)
        reader = _Reader(folder, place, dtype, device)
        weights = _build(config, reader)
        reader.refuse_leftovers(tied=config.tie_word_embeddings)
    return weights


class _Reader:
    """Hands out tensors by name and remembers which were asked for."""

    def __init__(
        self, folder: Path, place: dict[str, safe_open], dtype: torch.dtype, device: torch.device
    ) -> None:
        self._folder = folder
        self._place = place
        self._dtype = dtype
        self._device = device
        self._used: set[str] = set()

    def __call__(self, shape: tuple[int, ...], *names: str) -> Tensor:
        """The tensors of these names, stacked by rows, which must have this shape together."""
        missing = [name for name in names if name not in self._place]
        if missing:
            raise ModelError(f"{self._folder} lacks the tensor(s) {', '.join(missing)}")
        self._used.update(names)
        parts = [self._tensor(name) for name in names]
        num_rows = sum(part.shape[0] for part in parts)
        if num_rows != shape[0] or any(part.shape[1:] != shape[1:] for part in parts):
            found = " + ".join(str(list(part.shape)) for part in parts)
            raise ModelError(
                f"{self._folder}: {', '.join(names)}: shape {found}, but config.json means {list(shape)}"
            )
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _tensor(self, name: str) -> Tensor:
        tensor: Tensor = self._place[name].get_tensor(name)  # type: ignore[no-untyped-call]  # no stub
        return tensor.to(self._device, self._dtype)

    def refuse_leftovers(self, *, tied: bool) -> None:
        """Every tensor must have been used, but for what old checkpoints carry along."""
        spare = {name for name in self._place if name.endswith("rotary_emb.inv_freq")}
        if tied:
            spare.add("lm_head.weight")
        left = sorted(set(self._place) - self._used - spare)
        if left:
            raise ModelError(
                f"{self._folder} holds {len(left)} tensor(s) that config.json does not explain: "
                f"{', '.join(left[:5])}{', ...' if len(left) > 5 else ''}"
            )


def _build(config: ModelConfig, read: Callable[..., Tensor]) -> ModelWeights:
    hidden, vocab = config.hidden_size, config.vocab_size
    embed = read((vocab, hidden), "model.embed_tokens.weight")
    tied = config.tie_word_embeddings
    return ModelWeights(
        embed=embed,
        layers=tuple(_layer(config, read, f"model.layers.{i}") for i in range(config.num_layers)),
        norm=read((hidden,), "model.norm.weight"),
        head=embed if tied else read((vocab, hidden), "lm_head.weight"),
    )


def _layer(config: ModelConfig, read: Callable[..., Tensor], layer: str) -> LayerWeights:
    hidden, intermediate, head_dim = config.hidden_size, config.intermediate_size, config.head_dim
    heads, kv_heads = config.num_heads, config.num_kv_heads
    attention, mlp = f"{layer}.self_attn", f"{layer}.mlp"

    def linear(out_size: int, in_size: int, has_bias: bool, *names: str) -> Linear:
        weight = read((out_size, in_size), *(f"{name}.weight" for name in names))
        bias = read((out_size,), *(f"{name}.bias" for name in names)) if has_bias else None
        return Linear(weight, bias)

    def qk_norm() -> Tensor:
        query, key = (read((head_dim,), f"{attention}.{part}_norm.weight") for part in "qk")
        return torch.cat((query.expand(heads, -1), key.expand(kv_heads, -1)))

    qkv_size = (heads + 2 * kv_heads) * head_dim
    qkv = (f"{attention}.{part}_proj" for part in "qkv")
    gate_up = (f"{mlp}.{part}_proj" for part in ("gate", "up"))
    return LayerWeights(
        input_norm=read((hidden,), f"{layer}.input_layernorm.weight"),
        qkv=linear(qkv_size, hidden, config.qkv_bias, *qkv),
        qk_norm=qk_norm() if config.qk_norm else None,
        o=linear(hidden, heads * head_dim, config.o_bias, f"{attention}.o_proj"),
        post_norm=read((hidden,), f"{layer}.post_attention_layernorm.weight"),
        gate_up=linear(2 * intermediate, hidden, config.mlp_bias, *gate_up),
        down=linear(hidden, intermediate, config.mlp_bias, f"{mlp}.down_proj"),
    )


def _weight_files(folder: Path) -> list[Path]:
    if (folder / INDEX).is_file():
        shards = json.loads((folder / INDEX).read_text())["weight_map"].values()
        return [folder / name for name in sorted(set(shards))]
    if (folder / "model.safetensors").is_file():
        return [folder / "model.safetensors"]
    raise ModelError(
        f"{folder} has no model.safetensors, whole or sharded: other formats are not read"
    )
