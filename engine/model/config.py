"""What a model's config.json says, reduced to what the engine computes with.

Three families share one forward pass and differ in four switches:

    family   bias of q, k, v   bias of o    bias of mlp   norm of each q and k head
    llama    attention_bias    the same     mlp_bias      no
    qwen2    yes               no           no            no
    qwen3    attention_bias    the same     no            yes

Invariant: whatever this file accepts, `llama.py` computes exactly; anything else is refused by name, because
a switch that is ignored yields fluent nonsense.
Source: `configuration_llama.py`, `_qwen2.py`, `_qwen3.py` and `modeling_rope_utils.py` of transformers 5.24.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError

FAMILIES = {"LlamaForCausalLM": "llama", "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Slower rotation of the low frequencies, so that a model reaches past its training length."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes and switches of one model."""

    family: str
    """llama, qwen2 or qwen3."""
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: Llama3Scaling | None
    max_position_embeddings: int
    """The model's own limit for prompt plus output, in tokens."""
    tie_word_embeddings: bool
    """The head is the embedding."""
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    """The first is *the* eos; any of them ends an answer."""

    @property
    def kv_values_per_token(self) -> int:
        """Numbers that one token leaves in the KV cache, over all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim

    @property
    def num_parameters(self) -> int:
        """Weights to be held, a tied head counted once."""
        q_size, kv_size = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        qkv = (q_size + 2 * kv_size) * (self.hidden_size + self.qkv_bias)
        o = self.hidden_size * (q_size + self.o_bias)
        mlp = 3 * self.hidden_size * self.intermediate_size
        mlp_bias = self.mlp_bias * (2 * self.intermediate_size + self.hidden_size)
        norms = 2 * self.hidden_size + self.qk_norm * 2 * self.head_dim
        tables = (1 if self.tie_word_embeddings else 2) * self.vocab_size * self.hidden_size
        layer = qkv + o + mlp + mlp_bias + norms
        return self.num_layers * layer + tables + self.hidden_size


def load_config(folder: Path) -> ModelConfig:
    """Read config.json and, where there is one, generation_config.json.

    Raises ModelError for an unreadable file, another architecture, or a switch that is not implemented.
    """
    raw = _read_json(folder / "config.json")
    if raw is None:
        raise ModelError(f"{folder} has no config.json: give a folder of a Hugging Face checkpoint")
    architecture = (raw.get("architectures") or ["none"])[0]
    family = FAMILIES.get(architecture)
    if family is None:
        supported = ", ".join(FAMILIES)
        raise ModelError(
            f"{folder}: architecture {architecture} is not supported; supported: {supported}"
        )
    _refuse_unknown_switches(folder, raw)
    generation = _read_json(folder / "generation_config.json") or {}
    try:
        return _model_config(family, raw, generation)
    except KeyError as missing:
        raise ModelError(f"{folder / 'config.json'} does not say {missing}") from missing


def _model_config(family: str, raw: dict[str, Any], generation: dict[str, Any]) -> ModelConfig:
    num_heads: int = raw["num_attention_heads"]
    rope = _rope(raw)
    eos = generation.get("eos_token_id", raw.get("eos_token_id"))
    eos_token_ids = () if eos is None else tuple(eos) if isinstance(eos, list) else (eos,)
    attention_bias = family == "qwen2" or bool(raw.get("attention_bias", False))
    return ModelConfig(
        family=family,
        vocab_size=raw["vocab_size"],
        hidden_size=raw["hidden_size"],
        intermediate_size=raw["intermediate_size"],
        num_layers=raw["num_hidden_layers"],
        num_heads=num_heads,
        num_kv_heads=raw.get("num_key_value_heads") or num_heads,
        head_dim=raw.get("head_dim") or raw["hidden_size"] // num_heads,
        rms_norm_eps=raw.get("rms_norm_eps", 1e-6),
        rope_theta=float(rope.get("rope_theta", 10000.0)),
        rope_scaling=_llama3_scaling(rope),
        max_position_embeddings=raw["max_position_embeddings"],
        tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
        qkv_bias=attention_bias,
        o_bias=attention_bias and family != "qwen2",
        mlp_bias=family == "llama" and bool(raw.get("mlp_bias", False)),
        qk_norm=family == "qwen3",
        bos_token_id=raw.get("bos_token_id"),
        eos_token_ids=eos_token_ids,
    )


def _rope(raw: dict[str, Any]) -> dict[str, Any]:
    """transformers 5 writes `rope_parameters`; before, `rope_theta` stood alone beside `rope_scaling`."""
    rope = dict(raw.get("rope_parameters") or raw.get("rope_scaling") or {})
    if "rope_theta" in raw:
        rope.setdefault("rope_theta", raw["rope_theta"])
    rope.setdefault("rope_type", rope.get("type", "default"))
    return rope


def _llama3_scaling(rope: dict[str, Any]) -> Llama3Scaling | None:
    if rope["rope_type"] == "default":
        return None
    return Llama3Scaling(
        factor=rope["factor"],
        low_freq_factor=rope["low_freq_factor"],
        high_freq_factor=rope["high_freq_factor"],
        original_max_position_embeddings=rope["original_max_position_embeddings"],
    )


def _refuse_unknown_switches(folder: Path, raw: dict[str, Any]) -> None:
    rope = _rope(raw)
    activation = raw.get("hidden_act", "silu")
    checks = [
        (activation == "silu", f"activation {activation} (only silu)"),
        (rope["rope_type"] in ("default", "llama3"), f"rope type {rope['rope_type']}"),
        (rope.get("partial_rotary_factor", 1.0) == 1.0, "partial rotary embedding"),
        (not raw.get("use_sliding_window", False), "sliding-window attention"),
        (raw.get("quantization_config") is None, "quantised weights"),
    ]
    for supported, what in checks:
        if not supported:
            raise ModelError(f"{folder}: this model needs what is not implemented: {what}")


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} holds no JSON object")
    return content
