"""Eight requests that may become 128 tokens long and become 41: how many fit in a pool of 512 tokens?

Once with room reserved for the longest length, once with blocks as they are needed. The mistake:
both reserve.
"""

from engine import LLM, SamplingParams
from lessons.lab import Lab, main, prompt

NUM_REQUESTS, PROMPT, MAX_OUTPUT = 8, 20, 108
OUTPUT = 20
"""So many tokens, then one that ends the answer: it is forbidden before and forced after."""


def experiment(lab: Lab) -> None:
    """Engine 0: reserves. Engine 1: pages."""
    for cache in ("reserve", "reserve" if lab.wrong else "hash"):
        with (
            lab.trace() as trace,
            LLM(
                lab.model,
                trace=trace,
                cache=cache,
                num_blocks=33,
                max_model_len=128,
                max_num_seqs=NUM_REQUESTS,
            ) as llm,
        ):
            encode = llm.frontend.tokenizer.encode
            end = encode("end")[0]
            params = SamplingParams(
                temperature=0,
                max_tokens=MAX_OUTPUT,
                min_tokens=OUTPUT,
                stop_token_ids=(end,),
                logit_bias={end: 100},
            )
            prompts = [prompt(encode, PROMPT, n) for n in range(1, NUM_REQUESTS + 1)]
            llm.generate(prompts, params, progress=False)


if __name__ == "__main__":
    main(experiment)
