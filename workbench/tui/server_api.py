"""The server behind a live run: chats go to it, and with `--dev` it can be held still. Plain HTTP, no engine.

Invariant: nothing here blocks the screen, and a server that says no is quoted, not hidden.
"""

import json
import ssl
from collections.abc import AsyncGenerator
from functools import cache
from typing import Any

import httpx

MAX_TOKENS = 256
"""Of an answer to a prompt sent from here."""
CHAT_SECONDS = 300.0
QUICK_SECONDS = 5.0


REFUSALS = (401, 403, 404)
"""Without a key, with a wrong one, or without --dev: asking again would not help."""


class ServerError(Exception):
    """The server refused, or does not answer; the message is its own."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.is_refusal = status in REFUSALS


class ServerApi:
    """A server by its URL."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url
        self._headers = {} if key is None else {"authorization": f"Bearer {key}"}

    async def control(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """A path below /dev (`engine/server/dev.py`); without a body it is only looked at.

        Raises ServerError.
        """
        async with self._client(QUICK_SECONDS) as client:
            try:
                if body is None:
                    answer = await client.get(f"/dev/{path}")
                else:
                    answer = await client.post(f"/dev/{path}", json=body)
            except httpx.HTTPError as error:
                raise ServerError(str(error) or type(error).__name__) from error
        if answer.status_code != 200:
            raise ServerError(_message(answer.text, answer.status_code), answer.status_code)
        said: dict[str, Any] = answer.json()
        return said

    async def chat(self, model: str, prompt: str, request_id: str) -> AsyncGenerator[str]:
        """The answer's pieces; `request_id` comes back in the trace's external_id. Raises ServerError."""
        body = {
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": MAX_TOKENS,
            "stream": True,
        }
        headers = {"x-request-id": request_id}
        async with self._client(CHAT_SECONDS) as client:
            try:
                async with client.stream(
                    "POST", "/v1/chat/completions", json=body, headers=headers
                ) as answer:
                    if answer.status_code != 200:
                        text = (await answer.aread()).decode(errors="replace")
                        raise ServerError(_message(text, answer.status_code))
                    async for line in answer.aiter_lines():
                        piece = _piece(line)
                        if piece:
                            yield piece
            except httpx.HTTPError as error:
                raise ServerError(str(error) or type(error).__name__) from error

    def _client(self, seconds: float) -> httpx.AsyncClient:
        # No proxies: this is a server that the user named or that runs here.
        return httpx.AsyncClient(
            base_url=self.url,
            headers=self._headers,
            timeout=seconds,
            trust_env=False,
            verify=_certificates(),
        )


@cache
def _certificates() -> ssl.SSLContext:
    """Reading them takes 10 ms and a MiB: once, not with each question."""
    return httpx.create_ssl_context(trust_env=False)


def _piece(line: str) -> str:
    """The text in a line of the stream."""
    data = line.removeprefix("data: ")
    if data == line or data == "[DONE]":
        return ""
    said = json.loads(data)
    if "error" in said:
        raise ServerError(said["error"]["message"])
    return "".join(choice["delta"].get("content") or "" for choice in said["choices"])


def _message(text: str, status: int) -> str:
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"status {status}"
