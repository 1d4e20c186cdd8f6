"""A replay's own time: so much faster or slower than the run was, and no longer idle than one likes to wait.

Invariant: a step is shown when the clock has passed its end, and steps are never left out.
"""

from collections.abc import Mapping
from typing import Any

from workbench.tui.model import Model

SPEEDS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
LONGEST_PAUSE_NS = 2_000_000_000
"""A replay does not wait longer than this for the next step, however long the engine idled."""


class Clock:
    """Epoch ns of the run, `speed` times as fast as it was."""

    def __init__(self) -> None:
        self.speed = 1.0
        self.now_ns = 0.0

    def change_speed(self, by: int) -> None:
        """Slower or faster, by so many places."""
        place = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - self.speed))
        self.speed = SPEEDS[max(0, min(len(SPEEDS) - 1, place + by))]

    def run(self, model: Model, seconds: float) -> bool:
        """Apply the steps that have ended after so many more seconds; False: none had."""
        self.now_ns += seconds * self.speed * 1e9
        moved = False
        while model.upcoming:
            end_ns = _end_of(model, model.upcoming[0][1])
            if end_ns is None:
                break
            if end_ns > self.now_ns:
                self.now_ns = max(self.now_ns, end_ns - LONGEST_PAUSE_NS * self.speed)
                break
            if not model.forward():
                break
            moved = True
        return moved


def _end_of(model: Model, rows: Mapping[str, Any]) -> int | None:
    """When the step of these rows ended; None: they are no step."""
    if "step" not in rows:
        return None
    place = list(model.state.columns["step"]).index("end_ns")
    return int(rows["step"][0][place])
