"""Log lines that a client cannot forge: whatever came from outside is escaped before it is written.

    GET /v1/models%0AINFO: all is well      is one line:  GET "/v1/models\\nINFO: all is well" 404
    a traceback                              every line of it begins with "  | "

An error's text may quote what a client sent. Prompts are not logged at all: an access line has the method,
the path, the status and the time taken.

Source: CWE-117 (improper output neutralisation for logs).
"""

import json
import logging
import sys
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOGGER = logging.getLogger("cutaway.server")


class SafeFormatter(logging.Formatter):
    """One record, one line; a traceback below it, marked."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The record as text without control characters."""
        head = f"{self.formatTime(record)} {record.levelname} {escape(record.getMessage())}"
        if record.exc_info is None:
            return head
        trace = self.formatException(record.exc_info)
        return "\n".join([head, *(f"  | {escape(line)}" for line in trace.split("\n"))])


def escape(text: str) -> str:
    """Printable characters as they are, all others as escapes."""
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def set_up_logging() -> None:
    """Send the server's and uvicorn's records to standard error, safely."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(SafeFormatter())
    for name, level in (("uvicorn", logging.WARNING), (LOGGER.name, logging.INFO)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


class AccessLog:
    """ASGI middleware: one line per HTTP request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and write down how it was answered."""
        started, statuses = time.monotonic(), list[int]()

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            status = statuses[0] if statuses else "-"
            took_ms = (time.monotonic() - started) * 1000
            path = json.dumps(scope["path"])
            LOGGER.info("%s %s %s %.0f ms", scope["method"], path, status, took_ms)
