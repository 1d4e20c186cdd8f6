"""Stop strings: end a text where one of them appears, wherever the token borders fall.

Text is held back exactly as long as it could be the start of a stop string, so a reader never sees a part
of one.

    stop "END"     pieces "the E" "N" "ough"     shown "the " "" "ENough"

Invariant: what is shown, and which stop string is found, do not depend on how the text is cut into pieces: of
several, the one that is complete first counts (of those, the longest).

Source: rules of vLLM 0.33 `vllm/v1/engine/detokenizer.py` (check_stop_strings), which holds back a fixed
length.
"""

from collections.abc import Sequence


class StopStrings:
    """Passes text through until a stop string is found."""

    def __init__(self, stop: Sequence[str], *, include_in_output: bool = False) -> None:
        self._stop = tuple(stop)
        self._include = include_in_output
        self._max_held = max((len(s) for s in self._stop), default=1) - 1
        self._held = ""
        self.found: int | None = None
        """Index of the stop string that ended the text."""

    def feed(self, text: str) -> str:
        """Add text; returns what may be shown. Nothing more comes out once a stop string was found."""
        if self.found is not None:
            return ""
        text = self._held + text
        self._held = ""
        hits = [
            (start + len(s), start, i)
            for i, s in enumerate(self._stop)
            if (start := text.find(s)) >= 0
        ]
        if hits:
            end, start, self.found = min(hits)
            return text[:end] if self._include else text[:start]
        num_held = self._num_held(text)
        self._held = text[len(text) - num_held :]
        return text[: len(text) - num_held]

    def flush(self) -> str:
        """What was held back, when no text will follow."""
        rest, self._held = self._held, ""
        return rest

    def _num_held(self, text: str) -> int:
        """Length of the longest end of text that a stop string begins with."""
        for n in range(min(self._max_held, len(text)), 0, -1):
            if any(s.startswith(text[-n:]) for s in self._stop):
                return n
        return 0
