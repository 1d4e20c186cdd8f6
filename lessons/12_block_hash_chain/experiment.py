"""Send five prompts of different lengths twice each, one after the other, and see what the second one finds.

The lengths stand around a block boundary. The mistake: the prefix cache is switched off.
"""

from engine import LLM, SamplingParams
from lessons.lab import Lab, main, prompt

LENGTHS = (15, 31, 63, 64, 65)


def experiment(lab: Lab) -> None:
    """Engine 0: each prompt, then the same prompt again."""
    cache = "none" if lab.wrong else "hash"
    params = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
    with (
        lab.trace() as trace,
        LLM(lab.model, trace=trace, cache=cache, num_blocks=64, max_model_len=128) as llm,
    ):
        for number, length in enumerate(LENGTHS, 1):
            tokens = prompt(llm.frontend.tokenizer.encode, length, number)
            for _ in range(2):
                llm.generate(tokens, params, progress=False)


if __name__ == "__main__":
    main(experiment)
