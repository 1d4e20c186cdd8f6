"""What the experiments share: their command line, a run to record into, and prompts of an exact length.

    experiment.py RUN_DIR [--model MODEL] [--wrong]

An experiment may build several engines. Each gets a part of the run of its own (`Lab.trace`), so
the first is engine 0 in the tables, the second engine 1, and they can be compared in one query.

This module does not know the engine either: experiments hand over what they build.
"""

import argparse
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tracing
from tracing.recording import Participant, RunHandle

TOPIC = (
    "A serving engine keeps the keys and values of every token that it has read, because the next "
    "token must look at all of them. The cache is cut into blocks, the blocks lie anywhere in one "
    "pool, and a table says which block holds which part of a sequence. In every step the scheduler "
    "spends a budget of tokens: one for each answer that is being written, the rest for prompts "
    "that have just come in. "
)


@dataclass(frozen=True, slots=True)
class Lab:
    """Where an experiment records, and how it was called."""

    handle: RunHandle
    model: str
    wrong: bool
    """Build the mistaken configuration instead, whose run fails the lesson's checks."""

    @contextmanager
    def trace(self) -> Generator[Participant]:
        """The part of the run that one engine records; each call is another engine."""
        part = Participant(self.handle)
        try:
            yield part
        finally:
            part.leave()


def prompt(encode: Callable[[str], list[int]], num_tokens: int, number: int) -> list[int]:
    """Token ids of a readable prompt of exactly that length.

    Prompts of different numbers differ from their first block on, so they share no prefix of any use.
    """
    start = f"{number} " * 4
    token_ids: list[int] = []
    copies = 1
    while len(token_ids) < num_tokens:
        token_ids = encode(start + TOPIC * copies)
        copies *= 2
    return token_ids[:num_tokens]


def main(experiment: Callable[[Lab], None]) -> None:
    """Run an experiment as a program and record it, token ids included: the text is our own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run_dir", type=Path, help="a folder that is no run yet")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--wrong", action="store_true", help="the lesson's mistake, on purpose")
    options = parser.parse_args()
    with tracing.start(options.run_dir, record_tokens=True) as recording:
        experiment(Lab(recording.handle, options.model, options.wrong))
