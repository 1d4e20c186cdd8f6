"""Eight requests at once: served one after the other, as a loop around generate() does, and together.

The mistake: the engine that should serve one at a time takes all eight.
"""

from engine import LLM, SamplingParams
from lessons.lab import Lab, main, prompt

NUM_TOKENS = (8, 40, 12, 24, 8, 32, 16, 20)


def experiment(lab: Lab) -> None:
    """Engine 0: one at a time. Engine 1: up to eight together."""
    for max_num_seqs in (8 if lab.wrong else 1, 8):
        with (
            lab.trace() as trace,
            LLM(
                lab.model,
                trace=trace,
                cache="none",
                num_blocks=64,
                max_model_len=128,
                max_num_seqs=max_num_seqs,
            ) as llm,
        ):
            encode = llm.frontend.tokenizer.encode
            for number, num_tokens in enumerate(NUM_TOKENS, 1):
                params = SamplingParams(temperature=0, max_tokens=num_tokens, ignore_eos=True)
                llm.add(prompt(encode, 24, number), params)
            while llm.has_work:
                llm.step()


if __name__ == "__main__":
    main(experiment)
