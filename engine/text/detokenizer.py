"""Incremental detokeniser: text as it grows, never half a character.

A token is some bytes, not some characters: an emoji may take four tokens, and what a token looks like can
depend on the one before it (Metaspace drops the space at the start of a text). So a window of recent tokens
is decoded again with each new one, and only what is new at its end is handed out:

    window   [ context | sent ............ | new ]      decode(window)[num_sent:]
               ^ dropped, once long enough, at a point where no character was open

A tail of U+FFFD may be a character that is still open; its text waits. An open character has at most three
bytes, so after three tokens of waiting the tail is known to be broken and is shown. The window starts with
the end of the prompt, so that the first space is right.

Invariant: pieces joined, with `flush`, are the text of all tokens decoded at once. One exception, where the
past would have to be rewritten: byte-fallback tokenizers take back a whole run of bytes when one of them is
wrong. Time is linear: the window has at most `MAX_WINDOW` tokens. (`tokenizers.decoders.DecodeStream` has no
flush, keeps a broken tail for ever and raises on some inputs.)

Source: the idea of two offsets is Hugging Face text-generation-inference's, `decode_token`.
"""

from collections.abc import Sequence

from engine.text.tokenizer import Tokenizer

BROKEN = "\ufffd"
MAX_HELD = 3
"""An open character misses at least one of its four bytes: so many tokens, so many U+FFFD at most."""
NUM_CONTEXT = 6
"""Tokens kept as context when the window is cut."""
CUT_AT = 16
MAX_WINDOW = 64
"""A window in which no character ever closes is cut here all the same."""


class Detokenizer:
    """Text of one output sequence, token by token."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int] = (),
        *,
        skip_special_tokens: bool = True,
    ) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._window = self._context(prompt_token_ids)
        text = self._decode(self._window)
        self._num_sent = len(text) - _num_held(text)
        self._num_pending = 0
        """Tokens since the last one that left no character open."""
        self._cut_point = 0
        """Index in the window at which every character was closed; where it may start next."""

    @staticmethod
    def prompt_tail(prompt_token_ids: Sequence[int]) -> list[int]:
        """As much of a prompt's end as may be needed: for one that is made where the prompt is not."""
        return list(prompt_token_ids[-(NUM_CONTEXT + MAX_HELD) :])

    def feed(self, token_id: int) -> str:
        """Add a token; returns the text that it completes, often empty."""
        self._window.append(token_id)
        text = self._decode(self._window)
        num_held = _num_held(text)
        if num_held == 0:
            new = text[self._num_sent :]
            self._num_sent = len(text)
            self._num_pending = 0
            self._cut_between_characters()
            return new
        self._num_pending += 1
        if self._num_pending <= MAX_HELD:
            return ""
        num_ready = len(text) - num_held
        new = text[self._num_sent : num_ready]
        self._num_sent = max(self._num_sent, num_ready)
        if len(self._window) > MAX_WINDOW:
            self._cut_garbage(num_held)
        return new

    def flush(self) -> str:
        """The rest, when no token will follow: a broken tail is shown as U+FFFD."""
        rest = self._decode(self._window)[self._num_sent :]
        self._num_sent += len(rest)
        return rest

    def _decode(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(token_ids, skip_special_tokens=self._skip_special_tokens)

    def _context(self, prompt_token_ids: Sequence[int]) -> list[int]:
        """The prompt's last tokens, from the start of a character on if that can be had."""
        for num_tokens in range(NUM_CONTEXT, NUM_CONTEXT + MAX_HELD + 1):
            context = list(prompt_token_ids[-num_tokens:])
            if not self._decode(context).startswith(BROKEN):
                break
        return context

    def _cut_between_characters(self) -> None:
        if not self._cut_point and len(self._window) >= CUT_AT - NUM_CONTEXT:
            self._cut_point = len(self._window)
        if self._cut_point and len(self._window) >= CUT_AT:
            text = self._decode(self._window[self._cut_point :])
            if text:  # special tokens alone would leave no context
                self._window = self._window[self._cut_point :]
                self._num_sent = len(text)
            self._cut_point = 0

    def _cut_garbage(self, num_held: int) -> None:
        self._window = self._window[-CUT_AT:]
        self._num_sent = max(0, len(self._decode(self._window)) - num_held)
        self._cut_point = 0


def _num_held(text: str) -> int:
    """How many characters at the end may still change."""
    return min(MAX_HELD, len(text) - len(text.rstrip(BROKEN)))
