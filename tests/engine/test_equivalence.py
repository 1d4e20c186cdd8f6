"""Policies change when, never what: greedy tokens equal Hugging Face's under every setting of ours.

float32 throughout. A token may differ only where the reference itself was undecided: where the gap between
its two best logits is below NEAR_TIE. Such cases are counted, and the counts are checked too.
"""

import random
from dataclasses import dataclass
from itertools import count, pairwise, product
from pathlib import Path
from typing import Any

import pytest

from engine.build import build_core
from engine.config import EngineConfig
from engine.config_sglang import SglangConfig
from engine.request import Request, SamplingParams
from tracing.record import NO_RECORDER, Code

NEAR_TIE = 1e-3
NEW_TOKENS = 12


@dataclass(frozen=True)
class Reference:
    """What Hugging Face generates for one prompt, alone."""

    prompt: list[int]
    output: list[int]
    gaps: list[float]
    """Best minus second-best logit at each output position."""


def generate_reference(folder: Path, prompts: list[list[int]]) -> list[Reference]:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    references = []
    for prompt in prompts:
        with torch.inference_mode():
            got = model.generate(
                torch.tensor([prompt]),
                attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
                do_sample=False,
                max_new_tokens=NEW_TOKENS,
                min_new_tokens=NEW_TOKENS,
                output_logits=True,
                return_dict_in_generate=True,
                pad_token_id=0,
            )
        best = [logits[0].topk(2).values for logits in got.logits]
        gaps = [float(pair[0] - pair[1]) for pair in best]
        references.append(Reference(prompt, got.sequences[0, len(prompt) :].tolist(), gaps))
    return references


def run_engine(
    folder: Path, prompts: list[list[int]], aborts: dict[int, int] | None = None, **settings: Any
) -> dict[str, Any]:
    """Outputs in the order of the prompts, and how the run went; aborts: {request: before which step}."""
    # A small pool is quick to make.
    settings = {"kv_memory_bytes": 32 << 20} | settings
    core, _ = build_core(EngineConfig(model=str(folder), dtype="float32", **settings), NO_RECORDER)
    params = SamplingParams(temperature=0, max_tokens=NEW_TOKENS)
    for i, prompt in enumerate(prompts):
        core.add(Request(request_id=i, prompt_token_ids=prompt, params=params, arrival_ns=i))
    outputs: list[list[int]] = [[] for _ in prompts]
    preemptions = cached = 0
    for step in count():
        if not core.has_work:
            break
        for i in [i for i, at in (aborts or {}).items() if at == step and i in core.sequences]:
            core.abort(i, Code.ABORT_CALL)
        for output in core.step():
            outputs[output.request_id] += output.token_ids
            if output.end is not None:
                preemptions += output.end.num_preemptions
                cached += output.end.num_cached_tokens or 0
    steps = core.scheduler.num_steps
    core.close()
    return {"outputs": outputs, "preemptions": preemptions, "cached": cached, "steps": steps}


def near_ties(outputs: list[list[int]], references: list[Reference]) -> int:
    """Requests that left the reference at a near-tie; fails at a difference that is none."""
    ties = 0
    for output, reference in zip(outputs, references, strict=True):
        assert len(output) == NEW_TOKENS
        differs = [i for i in range(NEW_TOKENS) if output[i] != reference.output[i]]
        if differs:
            gap = reference.gaps[differs[0]]
            assert gap < NEAR_TIE, (reference.prompt, differs[0], gap)
            ties += 1
    return ties


def varied_prompts(vocab: int, n: int, longest: int) -> list[list[int]]:
    """Lengths from 1 on, half of them sharing a prefix with others, the last two equal."""
    rng = random.Random(11)
    stem = [rng.randrange(3, vocab) for _ in range(longest)]
    prompts = [[stem[0]]]
    for i in range(n - 3):
        shared = stem[: rng.randrange(longest // 2)] if i % 2 else []
        rest = rng.randrange(1, longest // 2)
        prompts.append(shared + [rng.randrange(3, vocab) for _ in range(rest)])
    return [*prompts, stem[:100], stem[:100]]


def sglang(block_size: int, **fields: Any) -> dict[str, Any]:
    return {"policy": "sglang", "block_size": block_size, "sglang": SglangConfig(**fields)}


SETTINGS = {
    "vllm, unlimited chunks": {},
    "vllm, chunks of 16": {"max_num_batched_tokens": 16, "max_num_seqs": 16},
    "vllm, no cache, chunks of 64": {
        "cache": "none",
        "max_num_batched_tokens": 64,
        "max_num_seqs": 64,
    },
    "vllm, block size 1": {"block_size": 1, "max_num_seqs": 24},
    "vllm, block size 7": {"block_size": 7},
    "vllm, block size 64": {"block_size": 64},
    "vllm, forced preemption": {"num_blocks": 13, "max_model_len": 160},
    "vllm, forced preemption, no cache": {
        "num_blocks": 13,
        "max_model_len": 160,
        "cache": "none",
    },
    "vllm, reserved": {"cache": "reserve"},
    "static": {"policy": "static", "max_num_seqs": 8},
    "static, no cache, chunks of 64": {
        "policy": "static",
        "max_num_seqs": 64,
        "cache": "none",
        "max_num_batched_tokens": 64,
    },
    "static, reserved": {"policy": "static", "cache": "reserve", "max_num_seqs": 8},
    "sglang, no cache, mixed chunks of 32": sglang(
        4, chunked_prefill_size=32, enable_mixed_chunk=True
    )
    | {"cache": "none"},
    # No output is expected of anybody, so that decodes run out of room and somebody is retracted.
    "sglang, page 1, forced preemption": sglang(1, clip_max_new_tokens=1) | {"num_blocks": 600},
    "sglang, page 16, mixed chunks of 256, forced preemption": sglang(
        16, clip_max_new_tokens=1, chunked_prefill_size=256, enable_mixed_chunk=True
    )
    | {"num_blocks": 60},
}
for size, policy, mixed in product((1, 4, 16), ("fcfs", "lpm"), (False, True)):
    SETTINGS[f"sglang, page {size}, {policy}, {'mixed ' if mixed else ''}chunks of 48"] = sglang(
        size, schedule_policy=policy, chunked_prefill_size=48, enable_mixed_chunk=mixed
    )


@pytest.fixture(scope="module")
def tiny_references(tiny_model) -> tuple[Path, list[Reference]]:
    folder = tiny_model("Llama")
    return folder, generate_reference(folder, varied_prompts(211, 56, 120))


@pytest.mark.parametrize("name", SETTINGS)
def test_56_prompts_batched_together_give_hugging_faces_tokens(tiny_references, name):
    folder, references = tiny_references
    references = random.Random(name).sample(references, len(references))
    settings = {"max_model_len": 256} | SETTINGS[name]
    result = run_engine(folder, [r.prompt for r in references], **settings)
    assert near_ties(result["outputs"], references) <= 1
    if "preemption" in name:
        assert result["preemptions"] > 2
    if SETTINGS[name].get("cache") in ("none", "reserve"):
        assert result["cached"] == 0
    else:
        assert result["cached"] > 0


@pytest.mark.parametrize("name", [name for name in SETTINGS if "preemption" in name])
def test_who_stays_gets_the_same_tokens_when_others_are_aborted(tiny_references, name):
    folder, references = tiny_references
    rng = random.Random(name)
    references = rng.sample(references, 24)
    aborts = {i: rng.randrange(40) for i in range(0, 24, 3)}
    prompts = [r.prompt for r in references]
    result = run_engine(folder, prompts, aborts, **{"max_model_len": 256} | SETTINGS[name])
    outputs = result["outputs"]
    gone = [i for i in aborts if len(outputs[i]) < NEW_TOKENS]
    assert gone
    # What an aborted one got is the beginning of what it would have got.
    whole = [
        output + reference.output[len(output) :] if i in gone else output
        for i, (output, reference) in enumerate(zip(outputs, references, strict=True))
    ]
    assert near_ties(whole, references) <= 1


@pytest.mark.parametrize("family", ["Qwen2", "Qwen3"])
def test_the_other_families_give_hugging_faces_tokens(tiny_model, family):
    folder = tiny_model(family)
    references = generate_reference(folder, varied_prompts(211, 20, 100))
    result = run_engine(
        folder,
        [r.prompt for r in references],
        max_model_len=256,
        max_num_batched_tokens=64,
        max_num_seqs=64,
    )
    assert near_ties(result["outputs"], references) == 0


TEXTS = [
    "The capital of France is",
    "def fibonacci(n):\n    ",
    "从前有一座山,山里有",
    "1, 2, 3, 5, 8, 13,",
    "Dear Sir or Madam,\n\nI am writing to",
    "🙂 means",
    "The quick brown fox",
    "In 1969, humans first",
    "Once upon a time, in a small village by the sea, there lived",
    "A",
]


REAL_SETTINGS = {
    "vllm": {},
    "vllm, no cache, chunks of 64": SETTINGS["vllm, no cache, chunks of 64"],
    "vllm, chunks of 16": SETTINGS["vllm, chunks of 16"],
    "vllm, forced preemption": {"num_blocks": 14, "max_model_len": 200},
    "static": {"policy": "static", "max_num_seqs": 16},
    "sglang, page 1, lpm": sglang(1, schedule_policy="lpm"),
    "sglang, page 16, mixed chunks of 32": sglang(
        16, chunked_prefill_size=32, enable_mixed_chunk=True
    ),
}


def real_prompts(folder: Path) -> list[list[int]]:
    """Fifty and more: texts alone, behind a shared beginning, run together, and small sums."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    shared = tokenizer.encode("You are a careful assistant who answers in one short sentence. " * 3)
    prompts = [tokenizer.encode(text) for text in TEXTS]
    prompts += [shared + prompt for prompt in prompts]
    prompts += [prompt[:-1] + other for prompt, other in pairwise(prompts)]
    return prompts + [tokenizer.encode(f"{n} plus {n + 1} is") for n in range(12)]


@pytest.fixture(scope="module")
def few_real_references(smollm2) -> tuple[Path, list[Reference]]:
    return smollm2, generate_reference(smollm2, real_prompts(smollm2)[4:16])


@pytest.fixture(scope="module")
def all_real_references(smollm2) -> tuple[Path, list[Reference]]:
    return smollm2, generate_reference(smollm2, real_prompts(smollm2))


def check_real(references: tuple[Path, list[Reference]], name: str) -> None:
    folder, given = references
    order = random.Random(5).sample(given, len(given))
    settings = {"max_model_len": 512} | REAL_SETTINGS[name]
    result = run_engine(folder, [r.prompt for r in order], **settings)
    assert near_ties(result["outputs"], order) <= 1
    if "preemption" in name:
        assert result["preemptions"] > 0


@pytest.mark.parametrize("name", REAL_SETTINGS)
def test_real_prompts_on_the_real_model_give_hugging_faces_tokens(few_real_references, name):
    check_real(few_real_references, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_SETTINGS)
def test_50_real_prompts_on_the_real_model_give_the_same(all_real_references, name):
    assert len(all_real_references[1]) >= 50
    check_real(all_real_references, name)
