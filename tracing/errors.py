"""Errors that a user can fix; the message says what to do. Our own bugs are assertions.

Those that screens say in the user's language have a `key`; what the others say, the database said, or it
names a thing of this run.
"""

from typing import ClassVar


class TraceError(Exception):
    """A run that cannot be found, opened or asked what was asked."""

    key: ClassVar[str | None] = None


class NoAnswer(TraceError):
    """A run's recorder does not answer."""

    key = "no_answer"


class NotAQuestion(TraceError):
    """Something else than one statement that reads."""

    key = "not_a_question"


class TookTooLong(TraceError):
    """A question was ended by its limit of time."""

    key = "too_long"


class TookTooMuch(TraceError):
    """A question was ended by its limit of memory."""

    key = "too_much"


class PutAside(TraceError):
    """A question was ended because nobody waits for its answer."""

    key = "put_aside"


KINDS: tuple[type[TraceError], ...] = (NoAnswer, NotAQuestion, TookTooLong, TookTooMuch, PutAside)


def to_json(error: TraceError) -> dict[str, str | None]:
    """An error as it travels between processes."""
    return {"error": str(error), "key": error.key}


def from_json(said: dict[str, str | None]) -> TraceError:
    """The inverse of `to_json`."""
    kinds = {kind.key: kind for kind in KINDS}
    return kinds.get(said.get("key"), TraceError)(said["error"])
