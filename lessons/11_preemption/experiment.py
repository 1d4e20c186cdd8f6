"""Three answers outgrow the pool: one of them loses its blocks and is computed again.

12 blocks of 16 tokens can be given out; three sequences of 80 tokens need 15. Once without a prefix
cache, once with it. The mistake: a pool in which all of them fit.
"""

from engine import LLM, SamplingParams
from lessons.lab import Lab, main, prompt

PROMPT, OUTPUT = 40, 40


def experiment(lab: Lab) -> None:
    """Engine 0: no prefix cache. Engine 1: block-hash cache."""
    params = SamplingParams(temperature=0, max_tokens=OUTPUT, ignore_eos=True)
    for cache in ("none", "hash"):
        with (
            lab.trace() as trace,
            LLM(
                lab.model,
                trace=trace,
                cache=cache,
                num_blocks=33 if lab.wrong else 13,
                max_model_len=128,
            ) as llm,
        ):
            encode = llm.frontend.tokenizer.encode
            prompts = [prompt(encode, PROMPT, number) for number in (1, 2, 3)]
            llm.generate(prompts, params, progress=False)


if __name__ == "__main__":
    main(experiment)
