"""Request R has 6 prompt tokens, of which 4 are cached, and writes 3 tokens. Blocks hold 4 tokens here.

The mistake: blocks of 16, in which nothing of a 6-token prompt can be found again.
"""

from engine import LLM, SamplingParams
from lessons.lab import Lab, main, prompt


def experiment(lab: Lab) -> None:
    """Engine 0: request 1 leaves 4 tokens in the cache, request 2 is R."""
    with (
        lab.trace() as trace,
        LLM(
            lab.model,
            trace=trace,
            block_size=16 if lab.wrong else 4,
            num_blocks=64,
            max_model_len=64,
        ) as llm,
    ):
        encode = llm.frontend.tokenizer.encode
        first = prompt(encode, 6, 1)
        request_r = first[:4] + prompt(encode, 40, 2)[-2:]
        for tokens, max_tokens in ((first, 1), (request_r, 3)):
            params = SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True)
            llm.generate(tokens, params, progress=False)


if __name__ == "__main__":
    main(experiment)
