"""Reading config.json: the three families' switches, both spellings of rope, and refusals by name."""

import json

import pytest
from safetensors import safe_open

from engine.errors import ModelError
from engine.model.config import Llama3Scaling, load_config

BASE = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "eos_token_id": 7,
}


@pytest.fixture
def read(tmp_path):
    """A function (**changes) -> config read back from a folder that says so."""

    def read(generation=None, **changes):
        (tmp_path / "config.json").write_text(json.dumps(BASE | changes))
        if generation is not None:
            (tmp_path / "generation_config.json").write_text(json.dumps(generation))
        return load_config(tmp_path)

    return read


def test_what_a_short_config_leaves_out(read):
    config = read()
    assert (config.num_kv_heads, config.head_dim, config.rope_theta) == (4, 8, 10000.0)
    assert (config.tie_word_embeddings, config.rope_scaling) == (False, None)


@pytest.mark.parametrize(
    ("architecture", "switches", "expected"),
    [
        ("LlamaForCausalLM", {}, (False, False, False, False)),
        ("LlamaForCausalLM", {"attention_bias": True, "mlp_bias": True}, (True, True, True, False)),
        ("Qwen2ForCausalLM", {}, (True, False, False, False)),
        ("Qwen3ForCausalLM", {}, (False, False, False, True)),
        ("Qwen3ForCausalLM", {"attention_bias": True}, (True, True, False, True)),
    ],
)
def test_switches_of_the_families(read, architecture, switches, expected):
    config = read(architectures=[architecture], **switches)
    assert (config.qkv_bias, config.o_bias, config.mlp_bias, config.qk_norm) == expected


def test_rope_in_the_old_and_in_the_new_spelling(read):
    scaling = {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    old = read(rope_theta=5e5, rope_scaling=scaling | {"rope_type": "llama3"})
    new = read(rope_parameters=scaling | {"rope_type": "llama3", "rope_theta": 5e5})
    assert old == new
    assert old.rope_scaling == Llama3Scaling(8.0, 1.0, 4.0, 64)
    assert old.rope_theta == 5e5


@pytest.mark.parametrize(
    ("generation", "expected"),
    [
        (None, (7,)),
        ({"eos_token_id": [3, 4]}, (3, 4)),
        ({"eos_token_id": 5}, (5,)),
        ({}, (7,)),
    ],
)
def test_ends_of_text_come_from_the_generation_config_first(read, generation, expected):
    assert read(generation=generation).eos_token_ids == expected


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "LlamaForCausalLM, Qwen2ForCausalLM"),
        ({"architectures": None}, "not supported"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_scaling": {"type": "yarn", "factor": 2.0}}, "yarn"),
        ({"use_sliding_window": True}, "sliding-window"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial rotary"),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(read, changes, word):
    with pytest.raises(ModelError, match=word):
        read(**changes)


def test_a_missing_or_broken_config_says_so(tmp_path):
    with pytest.raises(ModelError, match=r"no config\.json"):
        load_config(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match="not valid JSON"):
        load_config(tmp_path)
    without_size = {key: value for key, value in BASE.items() if key != "vocab_size"}
    (tmp_path / "config.json").write_text(json.dumps(without_size))
    with pytest.raises(ModelError, match="vocab_size"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("Llama", {"attention_bias": True, "mlp_bias": True}),
        ("Qwen2", {"tie_word_embeddings": True}),
        ("Qwen3", {"head_dim": 12}),
    ],
)
def test_the_number_of_parameters_is_what_the_file_holds(tiny_model, family, changes):
    folder = tiny_model(family, **changes)
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        held = sum(file.get_tensor(name).numel() for name in file.keys())  # noqa: SIM118 (no dict)
    assert load_config(folder).num_parameters == held
