"""An error as clients see it: OpenAI's shape, and a sentence that says what to change.

    {"error": {"message": "...", "type": "invalid_request_error", "param": "top_p", "code": null}}

Invariant: the message is ours; what a client sent is quoted by name at most, and never at length.

Source: OpenAI API reference, error codes.
"""

from pydantic import BaseModel

MAX_QUOTED = 100
"""Characters of a client's own words that an error repeats."""


class ErrorObject(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    """The field of the body that it is about."""
    code: str | None
    """For programs."""


class ErrorAnswer(BaseModel):
    """The body of every answer from 400 on."""

    error: ErrorObject


class ApiError(Exception):
    """An answer that is an error, in OpenAI's shape."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
        close: bool = False,
    ) -> None:
        """`close`: the connection cannot be used any more, part of the request is still on its way."""
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.headers: dict[str, str] = {}
        if retry_after_s is not None:
            self.headers["retry-after"] = str(retry_after_s)
        if close:
            self.headers["connection"] = "close"
        if status == 401:
            self.headers["www-authenticate"] = "Bearer"

    def body(self) -> dict[str, object]:
        """OpenAI's error object."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": error}


def quote(text: str) -> str:
    """A client's word, cut short."""
    return text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "..."
