"""One request in a KV pool of 64 MiB: how much does it take, and when?

100 prompt tokens and 60 of answer, keys and values in bfloat16. The mistake: float32, twice the size.
"""

from engine import LLM, SamplingParams
from lessons.lab import Lab, main, prompt

MIB = 2**20


def experiment(lab: Lab) -> None:
    """Engine 0: one request, alone."""
    with (
        lab.trace() as trace,
        LLM(
            lab.model,
            trace=trace,
            dtype="float32" if lab.wrong else "bfloat16",
            kv_memory_bytes=64 * MIB,
            max_model_len=512,
        ) as llm,
    ):
        tokens = prompt(llm.frontend.tokenizer.encode, 100, 1)
        params = SamplingParams(temperature=0, max_tokens=60, ignore_eos=True)
        llm.generate(tokens, params, progress=False)


if __name__ == "__main__":
    main(experiment)
