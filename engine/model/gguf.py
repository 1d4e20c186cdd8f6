"""From a GGUF file to a Hugging Face folder: dequantise, rename, and undo a permutation.

GGUF stores weights in small integer blocks with a scale each, under llama.cpp's names. llama.cpp rotates
neighbouring pairs (0,1), (2,3)... where the Hugging Face models rotate the two halves of a head, so its files
hold the rows of Q and K interleaved; read as they are, the model babbles.

    file:  a0 b0 a1 b1 a2 b2      folder:  a0 a1 a2 b0 b1 b2      (a, b: first and second half of a head)

Weights are written as bfloat16: half the size of float32, and its rounding (1 in 256) is small beside that of
the 4-bit file (1 in 16 of a block's range). Every reader, float32 engine and oracle alike, sees these values.
Source: GGUF v3 (`docs/gguf.md` of ggml); the permutation: llama.cpp `convert_hf_to_gguf.py` (permute).
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.torch import save_file
from tokenizers.pre_tokenizers import ByteLevel, Digits
from tokenizers.pre_tokenizers import Sequence as PreTokenizers
from transformers import AutoTokenizer

from engine.errors import ModelError

LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTER_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}


def convert_gguf(path: Path, folder: Path, on_fraction: Callable[[float], None]) -> None:
    """Write weights, config.json, generation_config.json and tokenizer of a Llama GGUF file to the folder.

    Raises ModelError for a file that is no GGUF, or of another architecture.
    """
    try:
        reader = GGUFReader(path)
    except (ValueError, IndexError, OSError) as error:
        raise ModelError(f"{path} cannot be read as GGUF: {error}") from error
    architecture = _field(reader, "general.architecture")
    if architecture != "llama":
        raise ModelError(
            f"{path.name} is a GGUF of architecture {architecture}; only llama is converted"
        )
    state = _weights(reader, lambda fraction: on_fraction(0.8 * fraction))
    weights = folder / "model.safetensors"
    save_file(state, weights, metadata={"format": "pt"})
    weights.chmod(0o644)  # safetensors writes for the owner alone; a cache may be shared
    config = _config(reader, state)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").write_text(json.dumps(_generation_config(reader), indent=1))
    on_fraction(0.85)
    _convert_tokenizer(path, folder, _field(reader, "tokenizer.ggml.pre"), config)
    on_fraction(1.0)


def unpermute(weight: np.ndarray[Any, Any], num_heads: int) -> np.ndarray[Any, Any]:
    """Rows of Q or K from pair order to half order. Shapes: [num_heads * D, in] -> the same."""
    rows, width = weight.shape
    pairs = weight.reshape(num_heads, rows // num_heads // 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(rows, width)


def _weights(reader: GGUFReader, on_fraction: Callable[[float], None]) -> dict[str, torch.Tensor]:
    state = {}
    for done, tensor in enumerate(reader.tensors, 1):
        name = _hugging_face_name(tensor.name)
        weight = dequantize(tensor.data, tensor.tensor_type)
        if name.endswith("q_proj.weight"):
            weight = unpermute(weight, _field(reader, "llama.attention.head_count"))
        elif name.endswith("k_proj.weight"):
            weight = unpermute(weight, _field(reader, "llama.attention.head_count_kv"))
        state[name] = torch.tensor(weight, dtype=torch.bfloat16)
        on_fraction(done / len(reader.tensors))
    return state


def _hugging_face_name(name: str) -> str:
    match name.split("."):
        case ["blk", layer, part, kind] if part in LAYER_NAMES:
            return f"model.layers.{layer}.{LAYER_NAMES[part]}.{kind}"
        case [part, kind] if part in OUTER_NAMES:
            return f"{OUTER_NAMES[part]}.{kind}"
        case _:
            raise ModelError(f"the GGUF file holds a tensor that a Llama model has not: {name}")


def _field(reader: GGUFReader, name: str) -> Any:
    field = reader.get_field(name)
    if field is None:
        raise ModelError(f"the GGUF file does not say {name}")
    return field.contents()


def _config(reader: GGUFReader, state: dict[str, torch.Tensor]) -> dict[str, object]:
    hidden_size = _field(reader, "llama.embedding_length")
    num_heads = _field(reader, "llama.attention.head_count")
    # The file holds the float32 next to 1e-05; seven digits give back the number that was meant.
    eps = float(f"{_field(reader, 'llama.attention.layer_norm_rms_epsilon'):.7g}")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden_size,
        "intermediate_size": _field(reader, "llama.feed_forward_length"),
        "num_hidden_layers": _field(reader, "llama.block_count"),
        "num_attention_heads": num_heads,
        "num_key_value_heads": _field(reader, "llama.attention.head_count_kv"),
        "head_dim": hidden_size // num_heads,
        "vocab_size": state["model.embed_tokens.weight"].shape[0],
        "max_position_embeddings": _field(reader, "llama.context_length"),
        "rms_norm_eps": eps,
        "rope_theta": float(_field(reader, "llama.rope.freq_base")),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "lm_head.weight" not in state,
        "bos_token_id": _field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": _field(reader, "tokenizer.ggml.eos_token_id"),
        "torch_dtype": "bfloat16",
    }


def _generation_config(reader: GGUFReader) -> dict[str, object]:
    """Where to stop: a chat model ends its turn with eos, but the token that ends a document ends it too."""
    tokens = _field(reader, "tokenizer.ggml.tokens")
    eos = _field(reader, "tokenizer.ggml.eos_token_id")
    end_of_text = [tokens.index("<|endoftext|>")] if "<|endoftext|>" in tokens else []
    return {
        "bos_token_id": _field(reader, "tokenizer.ggml.bos_token_id"),
        "eos_token_id": [eos, *(token for token in end_of_text if token != eos)],
        "pad_token_id": _field(reader, "tokenizer.ggml.padding_token_id"),
    }


def _convert_tokenizer(path: Path, folder: Path, split: str, config: dict[str, object]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    tokenizer.model_max_length = config["max_position_embeddings"]
    if split == "smollm":
        # transformers 5 drops the first step of this split, each digit by itself. It shows where several
        # blanks stand before a number.
        steps = [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
        tokenizer.backend_tokenizer.pre_tokenizer = PreTokenizers(steps)
    tokenizer.save_pretrained(folder)
