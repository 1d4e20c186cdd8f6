"""The model: Llama, Qwen2 and Qwen3 in one forward pass over a ragged batch.

A layer is two halves, each a function of the residual stream that returns what is to be added to it. They are
separate because everything distributed happens between them: tensor parallelism sums the halves' outputs over
ranks before the addition, pipeline parallelism hands the stream on after a layer.

    hidden -> norm -> qkv -> rope -> kv_write -> attention -> o_proj -> +       the attention half
       `------------------------------------------------------------>`  |
           .------------------------------------------------------------'
           `-> norm -> gate_up -> silu(gate) * up -> down -> +                  the MLP half
            `---------------------------------------------->`

Invariant: no loop over sequences, and no state but weights; the KV cache is an argument.
Shapes: T tokens, B rows that sample, H query heads, K KV heads, D head size, V vocabulary.
Source: `modeling_llama.py`, `modeling_qwen2.py`, `modeling_qwen3.py` of transformers 5.24; rotary embedding:
Su et al. 2021, section 3.4; its llama3 scaling: `modeling_rope_utils.py`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.model.attention import KVCache, paged_attention, write_kv
from engine.model.config import ModelConfig
from engine.model.input import ModelInput
from engine.model.launches import Mark
from engine.model.weights import ModelWeights

Rotation = tuple[Tensor, Tensor]
"""Cosine and sine per token, each [T, 1, D]; the sine's first half is negative, as the rotation wants it."""


class Llama:
    """A decoder of one of the three families, with its weights."""

    def __init__(self, config: ModelConfig, weights: ModelWeights) -> None:
        self.config = config
        self.weights = weights
        self.frequencies = rope_frequencies(config).to(weights.embed.device)

    @property
    def dtype(self) -> torch.dtype:
        """Of weights, activations and KV cache."""
        return self.weights.embed.dtype

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.weights.embed.device

    def forward(self, inputs: ModelInput, kv: KVCache, mark: Mark) -> Tensor:
        """Compute a batch and write its keys and values to the cache. Returns logits [B, V]."""
        hidden = F.embedding(inputs.token_ids, self.weights.embed)
        rotation = self.rotation(inputs.positions)
        mark("embed", -1)
        for layer in range(self.config.num_layers):
            hidden += self.attention_half(layer, hidden, rotation, inputs, kv, mark)
            hidden += self.mlp_half(layer, hidden, mark)
        wanted = self.norm(hidden[inputs.wanted_rows], self.weights.norm)
        mark("norm", -1)
        logits = F.linear(wanted, self.weights.head)
        mark("head", -1)
        return logits

    def attention_half(
        self,
        layer: int,
        hidden: Tensor,
        rotation: Rotation,
        inputs: ModelInput,
        kv: KVCache,
        mark: Mark,
    ) -> Tensor:
        """What the attention of a layer adds to the residual stream. Shapes: [T, hidden] -> the same."""
        weights, num_kv_heads = self.weights.layers[layer], self.config.num_kv_heads
        normed = self.norm(hidden, weights.input_norm)
        mark("norm", layer)
        heads = weights.qkv(normed).view(len(hidden), -1, self.config.head_dim)  # [T, H + 2K, D]
        mark("qkv", layer)
        rotated, values = heads[:, :-num_kv_heads], heads[:, -num_kv_heads:]
        if weights.qk_norm is not None:
            rotated = self.norm(rotated, None) * weights.qk_norm
            mark("qk_norm", layer)
        rotated = rotate(rotated, rotation)
        queries, keys = rotated[:, :-num_kv_heads], rotated[:, -num_kv_heads:]
        mark("rope", layer)
        write_kv(kv[layer], keys, values, inputs.slot_mapping)
        mark("kv_write", layer)
        attended = paged_attention(queries, kv[layer], inputs.groups)
        mark("attention", layer)
        out = weights.o(attended)
        mark("o_proj", layer)
        return out

    def mlp_half(self, layer: int, hidden: Tensor, mark: Mark) -> Tensor:
        """What the MLP of a layer adds to the residual stream. Shapes: [T, hidden] -> the same."""
        weights = self.weights.layers[layer]
        normed = self.norm(hidden, weights.post_norm)
        mark("norm", layer)
        gate, up = weights.gate_up(normed).chunk(2, dim=-1)
        out = weights.down(F.silu(gate) * up)
        mark("mlp", layer)
        return out

    def norm(self, x: Tensor, weight: Tensor | None) -> Tensor:
        """RMSNorm over the last axis."""
        return F.rms_norm(x, x.shape[-1:], weight, self.config.rms_norm_eps)

    def rotation(self, positions: Tensor) -> Rotation:
        """The angles of this step's tokens, shared by all layers. Shapes: [T] -> 2 x [T, 1, D]."""
        angles = (positions.unsqueeze(-1) * self.frequencies).unsqueeze(1)
        cos, sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)


def rotate(heads: Tensor, rotation: Rotation) -> Tensor:
    """Turn each pair (x[i], x[i + D / 2]) by its token's angle. Shapes: [T, heads, D] -> the same."""
    cos, signed_sin = rotation
    return torch.addcmul(heads * cos, heads.roll(heads.shape[-1] // 2, -1), signed_sin)


def rope_frequencies(config: ModelConfig) -> Tensor:
    """Angle per position of each pair: [D / 2], from 1 down to nearly 1 / rope_theta."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponents
    scaling = config.rope_scaling
    if scaling is None:
        return frequencies
    # Turns made over the training length: many -> the pair tells near positions apart and stays as it is;
    # few -> it tells far ones apart and is stretched by `factor`; between, a blend of both.
    turns = scaling.original_max_position_embeddings * frequencies / (2 * math.pi)
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    keep = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return keep * frequencies + (1.0 - keep) * frequencies / scaling.factor
