"""What the state chip says, and the line under the header that says more.

    ● LIVE      ■ PAUSED      ↻ LOST      core gone since 3 s, being restarted

Invariant: a notice that is only news goes by itself, also when nothing else happens.
"""

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from workbench.look.words import Words

NEWS_SECONDS = 5.0
"""How long news stay."""


class Mode(StrEnum):
    """What the state chip says."""

    LOADING = "loading"
    LIVE = "live"
    PAUSED = "paused"
    REPLAY = "replay"
    LOST = "lost"
    ENDED = "ended"
    HELD = "held"
    EMPTY = "empty"


@dataclass(slots=True)
class Notice:
    """A second line under the header. `news` makes one that goes by itself."""

    key: str
    values: dict[str, Any]
    is_alarm: bool = False
    until: float | None = None
    """On the monotonic clock; None: until something else is said."""
    since: float | None = None
    """What its {s} counts from; None: it has none, or a fixed one."""

    @property
    def is_over(self) -> bool:
        """It has been there long enough."""
        return self.until is not None and time.monotonic() > self.until

    def say(self, words: Words) -> str:
        """The sentence as of now."""
        if self.since is None:
            return words(self.key, **self.values)
        return words(self.key, **self.values, s=f"{time.monotonic() - self.since:.0f}")


def news(key: str, seconds: float = NEWS_SECONDS, **values: Any) -> Notice:
    """A notice that stays for a while."""
    return Notice(key, values, until=time.monotonic() + seconds)
