"""One answer is being written when three long prompts arrive: how long does it stand still?

Once with a budget of 1,024 tokens a step, once with 128. The mistake: the budget stays at 1,024.
"""

from engine import LLM, SamplingParams
from lessons.lab import Lab, main, prompt

LONG, NUM_LONG = 700, 3
WATCHED_OUTPUT, ARRIVAL = 40, 5
"""The long prompts come when the watched answer has so many tokens."""


def experiment(lab: Lab) -> None:
    """Engine 0: budget 1,024. Engine 1: budget 128. Request 1 is the watched one."""
    for budget in (1024, 1024 if lab.wrong else 128):
        with (
            lab.trace() as trace,
            LLM(
                lab.model,
                trace=trace,
                max_num_batched_tokens=budget,
                max_num_seqs=8,
                num_blocks=256,
                max_model_len=1024,
            ) as llm,
        ):
            encode = llm.frontend.tokenizer.encode
            params = SamplingParams(temperature=0, max_tokens=WATCHED_OUTPUT, ignore_eos=True)
            llm.add(prompt(encode, 16, 1), params)
            for _ in range(ARRIVAL):
                llm.step()
            params = SamplingParams(temperature=0, max_tokens=1, ignore_eos=True)
            for number in range(2, 2 + NUM_LONG):
                llm.add(prompt(encode, LONG, number), params)
            while llm.has_work:
                llm.step()


if __name__ == "__main__":
    main(experiment)
