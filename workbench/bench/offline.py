"""Tokens per second beside Hugging Face `generate`, on the same prompts in the same run.

Both sides get the same weights and dtype, the same prompts, greedy decoding and a fixed number of new tokens
per request. Hugging Face gets them as one left-padded batch, its ordinary way; only useful tokens count.
Rounds alternate between the two, so that the machine's mood hits both.
"""

import random
import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch

from engine import LLM, SamplingParams
from engine.model.hub import resolve_model


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians over the rounds."""

    concurrency: int
    ours: float
    """Output tokens per second."""
    hugging_face: float
    ratio: float
    """Median of the rounds' own ratios."""


def measure(
    model: str, concurrencies: tuple[int, ...] = (1, 8, 32), rounds: int = 3, new_tokens: int = 32
) -> list[Measured]:
    """Run both sides alternately at each concurrency."""
    path = resolve_model(model)
    llm = LLM(model, max_model_len=1024, max_num_seqs=max(concurrencies))
    reference = _load_reference(str(path), llm)
    results = []
    for n in concurrencies:
        prompts = _prompts(n)
        _ours(llm, prompts, 2)
        ours, theirs = [], []
        for _ in range(rounds):
            ours.append(n * new_tokens / _ours(llm, prompts, new_tokens))
            theirs.append(n * new_tokens / _generate(reference, prompts, new_tokens))
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        medians = (statistics.median(values) for values in (ours, theirs, ratios))
        results.append(Measured(n, *medians))
    llm.close()
    return results


def _prompts(n: int) -> list[list[int]]:
    """Prompts of 32 to 160 tokens; ids are arbitrary, since only time is measured."""
    rng = random.Random(n)
    return [[rng.randrange(100, 20_000) for _ in range(rng.randrange(32, 161))] for _ in range(n)]


def _ours(llm: LLM, prompts: list[list[int]], new_tokens: int) -> float:
    params = SamplingParams(temperature=0, max_tokens=new_tokens, ignore_eos=True)
    # Other first tokens each time: the prefix cache would make the prompts free.
    salted = [[random.randrange(100, 20_000), *prompt[1:]] for prompt in prompts]
    start = time.perf_counter()
    llm.generate(salted, params, progress=False)
    return time.perf_counter() - start


def _load_reference(path: str, llm: LLM) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(path, dtype=llm.ready.config["dtype"]).eval()


@torch.inference_mode()
def _generate(model: Any, prompts: list[list[int]], new_tokens: int) -> float:
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    start = time.perf_counter()
    model.generate(
        ids,
        attention_mask=mask,
        do_sample=False,
        min_new_tokens=new_tokens,
        max_new_tokens=new_tokens,
        pad_token_id=0,
    )
    return time.perf_counter() - start
