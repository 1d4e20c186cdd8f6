"""The ways in which a request can end, and what each is called: in answers, spans and metrics.

The closed list of codes (`tracing.codes`, 8xx) says *why*; this table says how the world outside is told:

    code             OpenAI's finish_reason   span status   a sentence for the span
    END_EOS          stop                     ok
    ABORT_TIMEOUT    abort                    error         timed out

A client's own doing (it went away, it asked for too much) is an error of that span too, so that a search for
failed spans finds every request that got no full answer; the HTTP span above it is an error only from 500 on.

Source: finish reasons of the OpenAI API reference, `abort` as in vLLM 0.33; OpenTelemetry span status.
"""

from dataclasses import dataclass

from engine.outputs import FinishReason
from tracing.record import Code


@dataclass(frozen=True, slots=True)
class Fate:
    """One way to end."""

    finish_reason: FinishReason
    error: str | None = None
    """What the span says; None: it is a success."""


FATES: dict[Code, Fate] = {
    Code.END_EOS: Fate("stop"),
    Code.END_STOP_TOKEN: Fate("stop"),
    Code.END_STOP_STRING: Fate("stop"),
    Code.END_LENGTH: Fate("length"),
    Code.END_MODEL_LEN: Fate("length"),
    Code.ABORT_CALL: Fate("abort", "cancelled by a call"),
    Code.ABORT_DISCONNECT: Fate("abort", "the client went away"),
    Code.ABORT_TIMEOUT: Fate("abort", "timed out"),
    Code.ABORT_SHUTDOWN: Fate("abort", "the server stopped before it ended"),
    Code.ABORT_NO_ROOM: Fate("abort", "it did not fit into the KV pool, even alone"),
    Code.REJECT_TOO_LONG: Fate("abort", "the prompt is longer than the context"),
    Code.REJECT_QUEUE: Fate("abort", "too many requests were waiting"),
    Code.REJECT_BAD: Fate("abort", "the request cannot be run as asked"),
    Code.REJECT_NO_ENGINE: Fate("abort", "there was no engine core to run it"),
    Code.LOST_ENGINE: Fate("abort", "the engine core died"),
}
"""By code. What is not here does not happen in this version."""
