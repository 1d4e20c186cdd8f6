"""The new-token ratio: how much of what running requests may still produce is set aside for them.

The idea: reserving all of max_tokens wastes memory, for most answers end early; reserving nothing leads to
retractions. So the share starts high, sinks with every decode step that fits, and jumps to an estimate from
what actually ran when a retraction shows that it was too low.

Invariant: min <= current <= init between retractions.

Source: SGLang 0.5.23 `sglang/srt/managers/scheduler_components/new_token_ratio_tracker.py` (n01).
"""

from collections.abc import Iterable

from engine.sequence import Sequence

INIT_RATIO = 0.7
MIN_RATIO_FACTOR = 0.14
DECAY_STEPS = 600
RETRACT_DECODE_STEPS = 20
"""After a retraction, room for so many steps of the survivors is made at once."""


class NewTokenRatio:
    """The share, and how it moves."""

    def __init__(self, conservativeness: float) -> None:
        self.init = min(INIT_RATIO * conservativeness, 1.0)
        self.min = min(self.init * MIN_RATIO_FACTOR, 1.0)
        self.decay = (self.init - self.min) / DECAY_STEPS
        self.current = self.init

    def step(self) -> None:
        """A decode step found room for everybody."""
        self.current = max(self.current - self.decay, self.min)

    def reset(self) -> None:
        """The engine is idle."""
        self.current = self.init


def ratio_after_retraction(survivors: Iterable[Sequence]) -> float:
    """What the survivors have produced, and will in the next steps, of what they may produce in all."""
    generated = allowed = num = 0
    for seq in survivors:
        assert seq.request.params.max_tokens is not None
        generated += seq.num_output_tokens
        allowed += seq.request.params.max_tokens
        num += 1
    return min(1.0, (generated + RETRACT_DECODE_STEPS * num) / (allowed + 1))
