"""The demo's traffic: real chats of different shapes, sent the way clients send them.

Short chats in two languages, one long document (the engine reads its own scheduler), a group that shares a
system prompt, a second turn, two answers to one question, and a client that goes away. Each shape shows
something in the trace: chunks beside decodes, prefix hits, an abort that frees its blocks.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from importlib.resources import files

import httpx

SHORT_EN = (
    "What is the capital of France?",
    "Name three primary colours.",
    "Write one sentence about the sea.",
    "What does a librarian do?",
    "Give me a synonym for 'quick'.",
    "Why is the sky blue? Answer briefly.",
)
SHORT_ZH = (
    "你好!请用一句话介绍你自己。",
    "法国的首都是哪里?",
    "请写一句关于春天的话。",
    "什么是图书馆?",
)
SHARED_SYSTEM = (
    "You are the help desk of a small museum of computing. Answer in at most two sentences, kindly and "
    "without jargon. The museum opens at ten and closes at six, on Thursdays at nine. Entry is free on the "
    "first Sunday of the month. The collection holds mechanical calculators, a restored relay computer, "
    "three minicomputers that visitors may program, early home computers, and a room about networks with a "
    "working telephone exchange. Guided tours start at eleven and at three and take fifty minutes. The cafe "
    "serves soup at noon. Dogs may wait in the courtyard. Photographs are welcome without flash. School "
    "classes should book a week ahead. If you do not know an answer, say so and offer to ask a curator."
)
SHARED_QUESTIONS = (
    "When do you close on Thursdays?",
    "May I bring my dog?",
    "Can I program one of the machines?",
    "Is there something to eat?",
    "How long is a guided tour?",
)
SHOWN_QUESTION = "In two sentences: why do libraries matter?"


@dataclass(frozen=True, slots=True)
class Chat:
    """One request of the load."""

    messages: tuple[dict[str, str], ...]
    max_tokens: int
    delay_s: float
    """After the start of the load."""
    cancel_after: int | None = None
    """Go away after so many chunks of the answer."""
    n: int = 1
    follow_up: str | None = None
    """Ask this next, with the first answer in the history."""


def user(text: str) -> dict[str, str]:
    """A user's message."""
    return {"role": "user", "content": text}


def make_load() -> list[Chat]:
    """The load, always the same."""
    source = files("engine.scheduler").joinpath("vllm.py").read_text(encoding="utf-8")
    document = f"Read this program and say what it does.\n\n{source}"
    system = {"role": "system", "content": SHARED_SYSTEM}
    chats = [Chat((user(text),), 40, 0.1 * i) for i, text in enumerate(SHORT_EN)]
    chats[0] = Chat((user(SHORT_EN[0]),), 24, 0.0, follow_up="And what is it known for?")
    chats += [Chat((user(text),), 40, 0.3 + 0.2 * i) for i, text in enumerate(SHORT_ZH)]
    chats.append(Chat((user(document),), 64, 0.8))
    chats.append(
        Chat((user("Tell me a long story about a lighthouse."),), 200, 0.9, cancel_after=8)
    )
    chats.append(Chat((user("Invent a name for a cat."),), 16, 1.0, n=2))
    # The first of the group fills the cache, the others find it.
    for i, text in enumerate(SHARED_QUESTIONS):
        chats.append(Chat((system, user(text)), 32, 0.5 if i == 0 else 4.0 + 0.1 * i))
    return chats


async def send_load(url: str, model: str, chats: list[Chat], done: Callable[[], None]) -> None:
    """Send all chats at their times; `done` is called as each ends. Raises httpx.HTTPError if one fails."""
    async with httpx.AsyncClient(base_url=url, timeout=600) as client, asyncio.TaskGroup() as group:
        for chat in chats:
            group.create_task(_send(client, model, chat, done))


async def _send(
    client: httpx.AsyncClient, model: str, chat: Chat, done: Callable[[], None]
) -> None:
    await asyncio.sleep(chat.delay_s)
    text, chunks = "", 0
    stream = stream_chat(client, model, list(chat.messages), chat.max_tokens, chat.n)
    async with aclosing(stream) as pieces:
        async for piece in pieces:
            text, chunks = text + piece, chunks + 1
            if chunks == chat.cancel_after:
                break
    if chat.follow_up is not None:
        history = [*chat.messages, {"role": "assistant", "content": text}, user(chat.follow_up)]
        async for _ in stream_chat(client, model, history, chat.max_tokens):
            pass
    done()


async def stream_chat(
    client: httpx.AsyncClient,
    model: str,
    messages: list[dict[str, str]],
    max_tokens: int,
    n: int = 1,
) -> AsyncGenerator[str]:
    """Pieces of the answer as they arrive; leaving the loop closes the connection."""
    body = {
        "model": model,
        "messages": messages,
        "max_completion_tokens": max_tokens,
        "temperature": 0.0 if n == 1 else 0.8,
        "seed": 7,
        "n": n,
        "stream": True,
    }
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.is_error:
            await response.aread()
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            for choice in json.loads(line[6:])["choices"]:
                if choice["delta"].get("content"):
                    yield choice["delta"]["content"]
