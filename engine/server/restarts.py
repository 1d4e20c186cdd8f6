"""When a process that died is started again: at once, then ever later, and not for ever.

    died ─► 0.5 s ─► died ─► 1 s ─► died ─► 2 s ─► 4 s ─► 8 s ─► died: give up

A crash is often an accident, and then the first new start ends it. A crash at each start is a fault that no
restart will cure, and a server that pretends otherwise hides it from the operator's own supervisor. A process
that has lived for `WINDOW_S` has its past forgiven.

Source: restart intensity of Erlang/OTP supervisors; start limits of systemd.
"""

import time
from collections import deque
from collections.abc import Callable

MAX_RESTARTS = 5
WINDOW_S = 300.0
FIRST_DELAY_S = 0.5


class Restarts:
    """The deaths of one role, and what follows from them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._deaths: deque[float] = deque()
        self.num_restarts = 0
        """Since the beginning."""

    def next_delay(self) -> float | None:
        """It died just now: seconds to wait before the next start, or None to give up."""
        now = self._clock()
        while self._deaths and self._deaths[0] < now - WINDOW_S:
            self._deaths.popleft()
        self._deaths.append(now)
        if len(self._deaths) > MAX_RESTARTS:
            return None
        self.num_restarts += 1
        return float(FIRST_DELAY_S * 2 ** (len(self._deaths) - 1))
