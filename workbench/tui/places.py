"""Where one is and how one came there: a stack, so that Escape goes back the way one came.

    1 ─► Overview        digits begin anew
    ⏎ ─► Batch 300  ─► Request r81  ─► Batch 138      esc, esc, esc: back

The step is not part of a place: it is one cursor, shared by all screens.
"""

from dataclasses import dataclass, replace

SCREENS = ("overview", "batch", "blocks", "requests", "request", "decisions", "help")


@dataclass(frozen=True, slots=True)
class Place:
    """A screen and what it is about."""

    screen: str
    request_id: int | None = None
    block_id: int | None = None


class Places:
    """The way here."""

    def __init__(self) -> None:
        self._stack = [Place("overview")]

    @property
    def here(self) -> Place:
        """Where one is."""
        return self._stack[-1]

    @property
    def before(self) -> Place | None:
        """Where Escape leads; None: nowhere."""
        return self._stack[-2] if len(self._stack) > 1 else None

    def jump(self, screen: str) -> None:
        """To a screen by its number: the way back is forgotten, what it was about is not."""
        self._stack = [replace(self.here, screen=screen)]

    def go_down(
        self, screen: str, *, request_id: int | None = None, block_id: int | None = None
    ) -> None:
        """To a screen about something; what is not said stays."""
        self._stack.append(self._about(screen, request_id, block_id))

    def turn_to(self, *, request_id: int | None = None, block_id: int | None = None) -> None:
        """The same screen about something else."""
        self._stack[-1] = self._about(self.here.screen, request_id, block_id)

    def go_back(self) -> bool:
        """Up the way one came; False if there is none."""
        if len(self._stack) == 1:
            return False
        self._stack.pop()
        return True

    def _about(self, screen: str, request_id: int | None, block_id: int | None) -> Place:
        here = self.here
        return Place(
            screen,
            here.request_id if request_id is None else request_id,
            here.block_id if block_id is None else block_id,
        )
