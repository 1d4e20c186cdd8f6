"""The text of one answer as it grows: detokenised, held back where a stop string may begin, ended by one.

    token ids ─► Detokenizer ─► StopStrings ─► Piece(text, ...)

It knows no sockets and no request ids, so it runs where one wants to spend the time: in the API's process,
or in one of its own between the core and the API (`engine.server.detokenizer_process`).

Invariant: pieces depend only on the tokens and the end that it was given, not on where or how they were cut
into calls. After a stop string was found, nothing more comes out and no token counts.

Source: vLLM 0.33 `vllm/v1/engine/detokenizer.py`; SGLang 0.5.23 `managers/detokenizer_manager.py`.
"""

import time
from collections.abc import Sequence

from engine.messages import Piece
from engine.request import SamplingParams
from engine.text.detokenizer import Detokenizer
from engine.text.stop_strings import StopStrings
from engine.text.tokenizer import Tokenizer
from tracing.record import Code


class AnswerText:
    """Turns the tokens of one answer into pieces of text."""

    def __init__(
        self, tokenizer: Tokenizer, prompt_token_ids: Sequence[int], params: SamplingParams
    ) -> None:
        self._params = params
        self._num_tokens = 0
        self._detokenizer = Detokenizer(
            tokenizer, prompt_token_ids, skip_special_tokens=params.skip_special_tokens
        )
        self._stops = StopStrings(params.stop, include_in_output=params.include_stop_str_in_output)

    def feed(self, token_ids: Sequence[int], end_code: int | None) -> Piece:
        """Take sampled tokens, and the code with which the core ended the answer, if it did.

        The token that ended it counts but is not shown, unless stop strings are shown too.
        """
        started = time.perf_counter_ns()
        hidden = (
            end_code in (Code.END_EOS, Code.END_STOP_TOKEN)
            and not self._params.include_stop_str_in_output
        )
        text, num_taken = "", 0
        for i, token_id in enumerate(token_ids):
            if self._stops.found is not None:
                break
            self._num_tokens += 1
            num_taken += 1
            if not (hidden and i == len(token_ids) - 1):
                text += self._show(self._detokenizer.feed(token_id))
        if end_code is not None and self._stops.found is None:
            text += self._show(self._detokenizer.flush()) + self._stops.flush()
        took_ns = time.perf_counter_ns() - started
        return Piece(text, num_taken, self._stops.found, took_ns)

    def _show(self, text: str) -> str:
        """Text on its way out; stop strings count only after min_tokens."""
        if self._num_tokens <= self._params.min_tokens:
            return text
        return self._stops.feed(text)
