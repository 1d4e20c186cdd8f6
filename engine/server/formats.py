"""From generations and their deltas to OpenAI's response objects: two endpoints, whole or in chunks.

Source: OpenAI API reference; vLLM 0.33 `vllm/entrypoints/openai` for what it leaves open.
"""

from collections.abc import Sequence
from typing import Any

from engine.generation import Delta, Generation
from engine.outputs import CompletionOutput, Logprob, PositionLogprobs
from engine.server.answers import (
    ChatAnswer,
    ChatChoice,
    ChatChunk,
    ChatChunkChoice,
    ChatLogprob,
    ChatLogprobs,
    ChatMessageOut,
    PromptDetails,
    TextAnswer,
    TextChoice,
    TextLogprobs,
    TopLogprob,
    Usage,
)


class ChatFormat:
    """Chat's shapes for one HTTP request."""

    def __init__(self, answer_id: str, created: int, model: str, *, chunk_usage: bool) -> None:
        self._head: dict[str, Any] = {"id": answer_id, "created": created, "model": model}
        self._chunk_usage: dict[str, Any] = {"usage": None} if chunk_usage else {}
        self._begun: set[int] = set()

    def whole(self, generations: Sequence[Generation]) -> ChatAnswer:
        """The finished answer."""
        [generation] = generations
        choices = [
            ChatChoice(
                index=out.index,
                message=ChatMessageOut(role="assistant", content=out.text),
                logprobs=_chat_logprobs(out.logprobs),
                finish_reason=out.finish_reason,
                stop_reason=out.stop_reason,
            )
            for out in generation.output().outputs
        ]
        usage = _usage(generations)
        return ChatAnswer(**self._head, object="chat.completion", choices=choices, usage=usage)

    def chunk(self, delta: Delta, index: int) -> ChatChunk:
        """A piece; the first one of a choice names the role."""
        first: dict[str, Any] = {} if index in self._begun else {"role": "assistant"}
        self._begun.add(index)
        asked = delta.choice.request.params.logprobs is not None
        choice = ChatChunkChoice(
            index=index,
            delta=ChatMessageOut(**first, content=delta.text),
            logprobs=_chat_logprobs(delta.logprobs) if asked else None,
            finish_reason=delta.finish_reason,
        )
        return ChatChunk(
            **self._head, object="chat.completion.chunk", choices=[choice], **self._chunk_usage
        )

    def usage(self, generations: Sequence[Generation]) -> ChatChunk:
        """The chunk after the last, when the client asked for usage."""
        usage = _usage(generations)
        return ChatChunk(**self._head, object="chat.completion.chunk", choices=[], usage=usage)


class TextFormat:
    """Completions' shapes for one HTTP request."""

    def __init__(self, answer_id: str, created: int, model: str, *, chunk_usage: bool) -> None:
        self._head: dict[str, Any] = {"id": answer_id, "created": created, "model": model}
        self._chunk_usage: dict[str, Any] = {"usage": None} if chunk_usage else {}
        self._offsets: dict[int, int] = {}
        """Characters of each choice whose tokens' log-probabilities were sent."""

    def whole(self, generations: Sequence[Generation]) -> TextAnswer:
        """The finished answer: choices of the first prompt, of the second, ..."""
        outputs = [out for generation in generations for out in generation.output().outputs]
        choices = [_text_choice(i, out) for i, out in enumerate(outputs)]
        usage = _usage(generations)
        return TextAnswer(**self._head, object="text_completion", choices=choices, usage=usage)

    def chunk(self, delta: Delta, index: int) -> TextAnswer:
        """A piece."""
        logprobs = None
        if delta.choice.request.params.logprobs is not None:
            offset = self._offsets.get(index, 0)
            logprobs = _text_logprobs(delta.logprobs, offset)
            self._offsets[index] = offset + sum(len(e.chosen.token) for e in delta.logprobs)
        choice = TextChoice(
            index=index, text=delta.text, logprobs=logprobs, finish_reason=delta.finish_reason
        )
        return TextAnswer(
            **self._head, object="text_completion", choices=[choice], **self._chunk_usage
        )

    def usage(self, generations: Sequence[Generation]) -> TextAnswer:
        """The chunk after the last, when the client asked for usage."""
        usage = _usage(generations)
        return TextAnswer(**self._head, object="text_completion", choices=[], usage=usage)


def _text_choice(index: int, out: CompletionOutput) -> TextChoice:
    return TextChoice(
        index=index,
        text=out.text,
        logprobs=None if out.logprobs is None else _text_logprobs(out.logprobs, 0),
        finish_reason=out.finish_reason,
        stop_reason=out.stop_reason,
    )


def _chat_logprobs(entries: Sequence[PositionLogprobs] | None) -> ChatLogprobs | None:
    if entries is None:
        return None
    return ChatLogprobs(
        content=[
            ChatLogprob(
                **_entry(entry.chosen),
                top_logprobs=[TopLogprob(**_entry(top)) for top in entry.top],
            )
            for entry in entries
        ]
    )


def _text_logprobs(entries: Sequence[PositionLogprobs], offset: int) -> TextLogprobs:
    offsets = []
    for entry in entries:
        offsets.append(offset)
        offset += len(entry.chosen.token)
    return TextLogprobs(
        tokens=[_text_name(entry.chosen) for entry in entries],
        token_logprobs=[entry.chosen.logprob for entry in entries],
        top_logprobs=[{_text_name(top): top.logprob for top in entry.top} for entry in entries],
        text_offset=offsets,
    )


def _text_name(found: Logprob) -> str:
    """A token as a key: a part of a character is named by its bytes, as OpenAI does."""
    try:
        return found.token_bytes.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in found.token_bytes)


def _entry(found: Logprob) -> dict[str, Any]:
    return {"token": found.token, "bytes": list(found.token_bytes), "logprob": found.logprob}


def _usage(generations: Sequence[Generation]) -> Usage:
    prompt = sum(len(g.requests[0].prompt_token_ids) for g in generations)
    output = sum(len(choice.token_ids) for g in generations for choice in g.choices)
    cached = sum(g.num_cached_tokens or 0 for g in generations)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=output,
        total_tokens=prompt + output,
        prompt_tokens_details=PromptDetails(cached_tokens=cached),
    )
