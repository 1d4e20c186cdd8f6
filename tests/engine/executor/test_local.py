"""The runner behind its executor: tokens, traces, and the real small model."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.config import EngineConfig
from engine.executor.local import LocalExecutor
from engine.model.config import load_config
from engine.model.llama import Llama
from engine.model.weights import load_weights
from engine.request import SamplingParams
from tests.engine.batches import BatchMaker
from tests.engine.recorded import MemorySink
from tracing.record import NO_RECORDER, Code, Kind, Level, Recorder
from tracing.spool import parse_blocks

CPU = torch.device("cpu")


def executor_for(folder, maker, dtype=torch.float32, recorder=NO_RECORDER):
    config = load_config(folder)
    settings = EngineConfig(block_size=maker.block_size).resolve(
        num_blocks=maker.num_blocks, max_model_len=128
    )
    model = Llama(config, load_weights(folder, config, dtype, CPU))
    return LocalExecutor(model, settings, recorder)


def run(executor, batch):
    executor.submit(batch)
    return executor.collect()


def generate(executor, maker, seq, num_tokens, chunk=1000):
    """Prefill in chunks, then decode one by one."""
    while seq.num_output_tokens < num_tokens:
        left = seq.num_tokens - seq.num_computed_tokens
        output = run(executor, maker.batch(maker.row(seq, min(left, chunk))))
        seq.token_ids += output.token_ids[0]
    return seq.token_ids[seq.num_prompt_tokens :]


@pytest.fixture
def tiny(tiny_model):
    return tiny_model("Llama")


def test_greedy_tokens_are_those_of_transformers_whatever_the_company(tiny):
    oracle = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    maker = BatchMaker(4, seed=3)
    executor = executor_for(tiny, maker)
    prompts = [maker.random_tokens(length) for length in (3, 9, 14, 30)]
    wanted = []
    for prompt in prompts:
        whole = oracle.generate(
            torch.tensor([prompt]), max_new_tokens=8, min_new_tokens=8, do_sample=False
        )
        wanted.append(whole[0, len(prompt) :].tolist())
    # min_new_tokens keeps transformers from eos (2), so it is masked here as well.
    params = SamplingParams(temperature=0, min_tokens=8)
    sequences = [maker.sequence(prompt, params, eos_token_id=2) for prompt in prompts]
    for step in range(14):  # each begins three steps after the one before
        present = [s for s in sequences[: 1 + step // 2] if s.num_output_tokens < 8]
        rows = [maker.row(s, min(11, s.num_tokens - s.num_computed_tokens)) for s in present]
        for row, tokens in zip(rows, run(executor, maker.batch(*rows)).token_ids, strict=True):
            assert len(tokens) == row.samples
            row.seq.token_ids += tokens
    while any(s.num_output_tokens < 8 for s in sequences):
        rows = [maker.row(s, 1) for s in sequences if s.num_output_tokens < 8]
        for row, tokens in zip(rows, run(executor, maker.batch(*rows)).token_ids, strict=True):
            row.seq.token_ids += tokens
    assert [s.token_ids[s.num_prompt_tokens :] for s in sequences] == wanted


def test_seeded_tokens_do_not_depend_on_chunks_company_or_preemption(tiny):
    maker = BatchMaker(4, seed=4)
    executor = executor_for(tiny, maker)
    prompt = maker.random_tokens(21)
    params = SamplingParams(temperature=1.0, seed=5, top_p=0.9)
    alone = generate(executor, maker, maker.sequence(prompt, params), 10)
    assert alone == generate(executor, maker, maker.sequence(prompt, params), 10, chunk=4)
    other = maker.sequence(prompt, replace(params, seed=6))
    assert alone != generate(executor, maker, other, 10)
    preempted = maker.sequence(prompt, params)
    generate(executor, maker, preempted, 4)
    preempted.block_table, preempted.num_computed_tokens = [], 0
    assert alone == generate(executor, maker, preempted, 10)


def test_logprobs_come_back_row_by_row_when_asked(tiny):
    maker = BatchMaker(4)
    executor = executor_for(tiny, maker)
    plain = maker.sequence(maker.random_tokens(5))
    asking = maker.sequence(maker.random_tokens(5), SamplingParams(temperature=0, logprobs=3))
    inside = maker.sequence(maker.random_tokens(9), SamplingParams(temperature=0, logprobs=3))
    rows = maker.row(inside, 4), maker.row(plain, 5), maker.row(asking, 5)
    output = run(executor, maker.batch(*rows))
    assert [len(tokens) for tokens in output.token_ids] == [0, 1, 1]
    assert output.logprobs[:2] == (None, None)
    assert output.logprobs[2].token_id == output.token_ids[2][0] == output.logprobs[2].top[0][0]
    assert run(executor, maker.batch(maker.row(inside, 5))).logprobs[0].rank == 1


def test_a_padding_row_recomputes_its_last_token_and_harms_nobody(tiny):
    maker = BatchMaker(4)
    executor = executor_for(tiny, maker)
    ended, going = maker.sequence(maker.random_tokens(6)), maker.sequence(maker.random_tokens(7))
    alone = generate(executor, maker, maker.sequence(list(going.token_ids)), 4)
    generate(executor, maker, ended, 2)
    generate(executor, maker, going, 2)
    padding = replace(
        maker.row(ended, 0),
        code=Code.PAD_STATIC,
        num_computed_tokens=ended.num_tokens - 1,
        num_scheduled_tokens=1,
    )
    for _ in range(2):
        output = run(executor, maker.batch(padding, maker.row(going, 1)))
        assert len(output.token_ids[0]) == 1
        going.token_ids += output.token_ids[1]
    assert going.token_ids[going.num_prompt_tokens :] == alone


@pytest.mark.parametrize("level", [Level.BLOCKS, Level.KERNELS])
def test_each_step_leaves_its_launches_and_its_time(tiny, level):
    maker, sink = BatchMaker(4), MemorySink()
    recorder = Recorder(sink, level=level)
    executor = executor_for(tiny, maker, recorder=recorder)
    seq = maker.sequence(maker.random_tokens(9))
    run(executor, maker.batch(maker.row(seq, 4)))
    run(executor, maker.batch(maker.row(seq, 5)))
    recorder.flush()
    found = [
        (kind, tuple(fields), text)
        for block in parse_blocks(sink.data, 0)
        for kind, _, fields, text in block.records()
    ]
    passes = [fields for kind, fields, _ in found if kind == Kind.RANK_STEP]
    assert [fields[2:] for fields in passes] == [(0, 0, 0, 0, 2, 4), (0, 0, 0, 0, 2, 5)]
    launches = [fields for kind, fields, _ in found if kind == Kind.KERNELS]
    if level < Level.KERNELS:
        assert launches == []
        return
    names = {fields[1]: text.decode() for kind, fields, text in found if kind == Kind.DICT}
    templates = [fields[1:] for kind, fields, _ in found if kind == Kind.TEMPLATE]
    kinds = [Counter(names[number] for number in template[::2]) for template in templates]
    once = {"embed": 1, "head": 1}
    layers = ("qkv", "rope", "kv_write", "attention", "o_proj", "mlp")
    expected = Counter({**once, **dict.fromkeys(layers, 2), "norm": 5})
    assert kinds == [expected, expected + Counter(sample=1)]
    for (start, end, *_), (template, num_tokens, clock, *marks) in zip(
        passes, launches, strict=True
    ):
        assert len(marks) == len(templates[template]) // 2 + 1
        assert start <= marks[0]
        assert marks == sorted(marks)
        assert marks[-1] <= end
        assert (num_tokens, clock) == (4 if start == passes[0][0] else 5, 0)


def test_one_step_in_flight_and_none_after_close(tiny):
    maker = BatchMaker(4)
    executor = executor_for(tiny, maker)
    assert executor.depth == 1
    batch = maker.batch(maker.row(maker.sequence([5, 6]), 2))
    with pytest.raises(AssertionError):
        executor.collect()
    executor.submit(batch)
    with pytest.raises(AssertionError):
        executor.submit(batch)
    assert len(executor.collect().token_ids[0]) == 1
    executor.close()
    executor.submit(batch)
    with pytest.raises(AssertionError):
        executor.collect()


@pytest.fixture(scope="module")
def france(smollm2):
    """A chat about France as token ids, and the tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return tokenizer(prompt).input_ids, tokenizer


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_real_model_knows_the_capital_of_france(smollm2, france, dtype):
    prompt, tokenizer = france
    maker = BatchMaker(16, num_blocks=20)
    executor = executor_for(smollm2, maker, dtype)
    tokens = generate(executor, maker, maker.sequence(prompt), 8, chunk=20)
    assert tokenizer.decode(tokens) == "The capital of France is Paris.<|im_end|>"
    assert tokens[-1] in load_config(smollm2).eos_token_ids == (2, 0)


@torch.inference_mode()
def test_the_real_model_agrees_with_transformers(smollm2, france):
    prompt, tokenizer = france
    oracle = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    maker = BatchMaker(16, num_blocks=20)
    executor = executor_for(smollm2, maker)
    wanted = oracle(torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
    params = SamplingParams(temperature=0, logprobs=20)
    output = run(executor, maker.batch(maker.row(maker.sequence(prompt, params), len(prompt))))
    found = dict(output.logprobs[0].top)
    assert list(found) == wanted.topk(20).indices.tolist()
    for token, logprob in found.items():
        assert logprob == pytest.approx(wanted[token].item(), abs=1e-3)
    # The digits of a number are tokens of their own, also after several blanks.
    assert tokenizer.tokenize("a  12 b") == ["a", "ĠĠ", "1", "2", "Ġb"]
