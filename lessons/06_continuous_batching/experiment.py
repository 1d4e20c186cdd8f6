"""Serve A, B and C, which want 2, 5 and 3 tokens, on two places: once as static batches, once continuously.

The mistake: both engines batch statically.
"""

from engine import LLM, SamplingParams
from lessons.lab import Lab, main, prompt

NUM_TOKENS = {"A": 2, "B": 5, "C": 3}


def experiment(lab: Lab) -> None:
    """Engine 0: static. Engine 1: continuous."""
    for policy in ("static", "static" if lab.wrong else "vllm"):
        with (
            lab.trace() as trace,
            LLM(
                lab.model,
                trace=trace,
                policy=policy,
                cache="none",
                num_blocks=64,
                max_model_len=128,
                max_num_seqs=2,
            ) as llm,
        ):
            encode = llm.frontend.tokenizer.encode
            for number, num_tokens in enumerate(NUM_TOKENS.values(), 1):
                params = SamplingParams(temperature=0, max_tokens=num_tokens, ignore_eos=True)
                llm.add(prompt(encode, 12, number), params)
            while llm.has_work:
                llm.step()


if __name__ == "__main__":
    main(experiment)
