"""The forward pass against transformers: the same logits at every token, however the batch is cut."""

from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM

from engine.model.attention import allocate_kv
from engine.model.config import load_config
from engine.model.input import build_input
from engine.model.launches import unmarked
from engine.model.llama import Llama
from engine.model.weights import load_weights
from tests.engine.batches import BatchMaker

CPU = torch.device("cpu")
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MODELS = {
    "llama": ("Llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 3000.0}}),
    "llama biased, tied, llama3 rope": (
        "Llama",
        {
            "attention_bias": True,
            "mlp_bias": True,
            "tie_word_embeddings": True,
            "rope_parameters": LLAMA3_ROPE,
        },
    ),
    "llama, one KV head a query head": ("Llama", {"num_key_value_heads": 6}),
    "qwen2 tied": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {"head_dim": 12}),
}


def load(folder):
    config = load_config(folder)
    return Llama(config, load_weights(folder, config, torch.float32, CPU))


def kv_for(model, maker):
    config = model.config
    shape = (maker.num_blocks, maker.block_size, config.num_kv_heads, config.head_dim)
    return allocate_kv(config.num_layers, shape, torch.float32, CPU)


def logits_of_all_tokens(model, kv, batch, block_size):
    """Logits of every token of the batch, row by row."""
    inputs = build_input(batch, model.config, block_size, torch.float32, CPU)
    everything = replace(inputs, wanted_rows=torch.arange(len(inputs.token_ids)))
    logits = model.forward(everything, kv, unmarked)
    return logits.split([row.num_scheduled_tokens for row in batch.rows])


@pytest.mark.parametrize("block_size", [1, 4, 16])
@pytest.mark.parametrize("name", MODELS)
@torch.inference_mode()
def test_ragged_batches_give_the_logits_of_transformers(name, block_size, tiny_model):
    family, settings = MODELS[name]
    folder = tiny_model(family, **settings)
    oracle = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = load(folder)
    maker = BatchMaker(block_size, num_blocks=1200, seed=block_size)
    kv = kv_for(model, maker)
    # One longer than a tile of queries, the others of every size class; all end in single-token steps.
    sequences = [maker.sequence(maker.random_tokens(n)) for n in (331, 40, 19, 1, 2, 150, 23)]
    expected = {id(s): oracle(torch.tensor([s.token_ids])).logits[0] for s in sequences}
    step, num_checked = 0, 0
    while open_ := [s for s in sequences if s.num_computed_tokens < s.num_tokens]:
        members = open_ if step == 0 else maker.rng.sample(open_, maker.rng.randint(1, len(open_)))
        rows = []
        for seq in members:
            left = seq.num_tokens - seq.num_computed_tokens
            chunk = 300 if seq.num_tokens > 300 else maker.rng.choice([1, 1, 5, 17, 40, 90])
            rows.append(maker.row(seq, min(left, chunk)))
        batch = maker.batch(*rows, step=step)
        for row, logits in zip(
            rows, logits_of_all_tokens(model, kv, batch, block_size), strict=True
        ):
            start = row.num_computed_tokens
            wanted = expected[id(row.seq)][start : start + len(logits)]
            torch.testing.assert_close(logits, wanted, rtol=1e-4, atol=1e-4)
            num_checked += len(logits)
        step += 1
    assert num_checked == sum(s.num_tokens for s in sequences)


@torch.inference_mode()
def test_a_prefix_computed_by_another_sequence_can_be_shared(tiny_model):
    model = load(tiny_model("Llama"))
    maker = BatchMaker(4)
    kv = kv_for(model, maker)
    tokens = maker.random_tokens(14)
    first, second = maker.sequence(tokens), maker.sequence(tokens)
    whole = logits_of_all_tokens(model, kv, maker.batch(maker.row(first, 14)), 4)[0]
    second.block_table = first.block_table[:3]
    second.num_computed_tokens = 12
    part = logits_of_all_tokens(model, kv, maker.batch(maker.row(second, 2)), 4)[0]
    torch.testing.assert_close(part, whole[12:], rtol=1e-5, atol=1e-5)


@torch.inference_mode()
def test_only_rows_that_reach_their_end_are_wanted(tiny_model):
    model = load(tiny_model("Llama"))
    maker = BatchMaker(4)
    inside, ending = maker.sequence(maker.random_tokens(9)), maker.sequence(maker.random_tokens(3))
    batch = maker.batch(maker.row(inside, 5), maker.row(ending, 3))
    inputs = build_input(batch, model.config, 4, torch.float32, CPU)
    assert inputs.wanted_rows.tolist() == [7]
    assert model.forward(inputs, kv_for(model, maker), unmarked).shape == (
        1,
        model.config.vocab_size,
    )
    nothing = build_input(maker.batch(maker.row(inside, 2)), model.config, 4, torch.float32, CPU)
    assert model.forward(nothing, kv_for(model, maker), unmarked).shape == (
        0,
        model.config.vocab_size,
    )


@torch.inference_mode()
def test_bfloat16_stays_near_float32(tiny_model):
    folder = tiny_model("Llama")
    config, maker = load_config(folder), BatchMaker(4)
    seq = maker.sequence(maker.random_tokens(60))
    batch = maker.batch(maker.row(seq, 60))
    exact = logits_of_all_tokens(load(folder), kv_for(load(folder), maker), batch, 4)[0]
    model = Llama(config, load_weights(folder, config, torch.bfloat16, CPU))
    shape = (maker.num_blocks, 4, config.num_kv_heads, config.head_dim)
    kv = allocate_kv(config.num_layers, shape, torch.bfloat16, CPU)
    inputs = build_input(batch, config, 4, torch.bfloat16, CPU)
    inputs = replace(inputs, wanted_rows=torch.arange(60))
    rounded = model.forward(inputs, kv, unmarked).float()
    relative = (rounded - exact).norm() / exact.norm()
    assert 0 < relative < 0.03
