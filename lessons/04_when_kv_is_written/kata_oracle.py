"""The oracle of the kata: the subtraction num_tokens - num_computed_tokens, step by step."""

from collections.abc import Iterator

from lessons.oracle import main


def plan(num_prompt: int, num_cached: int, max_tokens: int) -> list[tuple[int, int, int]]:
    """(first position computed, number computed, position sampled) of each step of a lone request."""
    steps = []
    num_tokens, num_computed = num_prompt, num_cached
    while num_tokens < num_prompt + max_tokens:
        steps.append((num_computed, num_tokens - num_computed, num_tokens))
        num_computed = num_tokens
        num_tokens += 1
    return steps


def cases() -> Iterator[tuple[int, int, int]]:
    """All small prompts and hits; a hit leaves at least one token."""
    for num_prompt in range(1, 8):
        for num_cached in range(num_prompt):
            for max_tokens in range(1, 5):
                yield num_prompt, num_cached, max_tokens


if __name__ == "__main__":
    main(plan, cases())
