"""Checkpoints, whole and in shards, and each way in which one can be wrong."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from engine.errors import ModelError
from engine.model.config import load_config
from engine.model.weights import load_weights

CPU = torch.device("cpu")


def load(folder, dtype=torch.float32):
    return load_weights(folder, load_config(folder), dtype, CPU)


@pytest.fixture
def broken(tiny_model, tmp_path):
    """A function (change) -> copy of a model whose tensors went through `change`."""

    def make(change):
        folder = tmp_path / "copy"
        shutil.copytree(tiny_model("Llama"), folder)
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return folder

    return make


def test_fused_matrices_are_the_stacked_projections(tiny_model):
    folder = tiny_model("Qwen2")
    tensors, weights = load_file(folder / "model.safetensors"), load(folder)
    x = torch.randn(3, 48)
    prefix = "model.layers.1.self_attn"
    wanted = [
        x @ tensors[f"{prefix}.{part}_proj.weight"].T + tensors[f"{prefix}.{part}_proj.bias"]
        for part in "qkv"
    ]
    torch.testing.assert_close(weights.layers[1].qkv(x), torch.cat(wanted, dim=-1))
    gate, up = (tensors[f"model.layers.0.mlp.{part}_proj.weight"] for part in ("gate", "up"))
    torch.testing.assert_close(weights.layers[0].gate_up(x), x @ torch.cat((gate, up)).T)


def test_shards_hold_the_same_model(tiny_model, tmp_path):
    folder = tiny_model("Llama")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    whole, sharded = load(folder), load(tmp_path)
    assert torch.equal(whole.embed, sharded.embed)
    assert torch.equal(whole.head, sharded.head)
    x = torch.randn(2, 48)
    for one, other in zip(whole.layers, sharded.layers, strict=True):
        assert torch.equal(one.qkv(x), other.qkv(x))


def test_a_tied_head_is_the_embedding_itself(tiny_model):
    weights = load(tiny_model("Qwen2", tie_word_embeddings=True))
    assert weights.head is weights.embed


def test_weights_are_cast(tiny_model):
    weights = load(tiny_model("Llama"), torch.bfloat16)
    assert weights.embed.dtype == weights.layers[0].input_norm.dtype == torch.bfloat16
    assert weights.layers[0].down(torch.ones(1, 80, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_missing_tensors_are_named(broken):
    folder = broken(lambda tensors: tensors.pop("model.layers.1.self_attn.k_proj.weight"))
    with pytest.raises(ModelError, match=r"lacks .*model\.layers\.1\.self_attn\.k_proj\.weight"):
        load(folder)


def test_unexpected_tensors_are_named(broken):
    folder = broken(lambda tensors: tensors.update({"model.layers.9.extra": torch.ones(1)}))
    with pytest.raises(ModelError, match=r"does not explain: model\.layers\.9\.extra"):
        load(folder)


def test_what_old_checkpoints_carry_along_is_left_aside(broken):
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    load(broken(lambda tensors: tensors.update({name: torch.ones(4)})))


def test_shapes_that_the_config_does_not_mean_are_refused(broken):
    folder = broken(lambda tensors: tensors.update({"model.norm.weight": torch.ones(47)}))
    with pytest.raises(ModelError, match=r"model\.norm\.weight: shape \[47\].* means \[48\]"):
        load(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_key_value_heads": 3}))
    with pytest.raises(ModelError, match="k_proj"):
        load(folder)


def test_damaged_and_missing_files(broken):
    folder = broken(lambda tensors: None)
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ModelError, match="cannot be read"):
        load(folder)
    file.unlink()
    with pytest.raises(ModelError, match=r"no model\.safetensors"):
        load(folder)
