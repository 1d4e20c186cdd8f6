"""Chat template: a list of messages becomes the one text that the model was trained to continue.

Each model brings its own small program for this (Jinja, in `chat_template.jinja` or `tokenizer_config.json`).
It is code from a stranger, so it runs in Jinja's sandbox, and it gets the few helpers that templates in the
wild rely on: `raise_exception`, `strftime_now`, `tojson` without HTML escapes, `break`/`continue`, and the
`generation` tag, which marks what the assistant wrote (for training; here it only lets its body through).

Source: transformers 5.24 `utils/chat_template_utils.py` (the environment that templates are written for).
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.errors import ConfigError, ModelError

Message = Mapping[str, object]
"""`role` and `content`; content is a text or OpenAI's list of `{"type": "text", "text": ...}` parts."""


class ChatTemplate:
    """A compiled template. Raises ModelError when the source is not valid Jinja."""

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise ModelError(f"the model's chat template cannot be compiled: {error}") from error
        self._special_tokens = dict(special_tokens)
        """`bos_token`, `eos_token`, ...: templates write them by name."""

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt that asks for the assistant's next turn.

        Raises ConfigError when the messages have no usable shape, or when the template refuses them.
        """
        if not messages:
            raise ConfigError("messages is empty: a chat needs at least one message")
        chat = [_plain(message, f"messages[{i}]") for i, message in enumerate(messages)]
        try:
            return self._template.render(
                messages=chat, add_generation_prompt=True, **self._special_tokens
            )
        except TemplateError as error:
            raise ConfigError(
                f"the model's chat template refuses these messages: {error}"
            ) from error
        except (TypeError, AttributeError, KeyError, ValueError) as error:
            # A template that trips over its input: still the combination of the two, not a bug of ours.
            raise ConfigError(f"the chat template failed on these messages: {error!r}") from error


def _plain(message: Message, where: str) -> dict[str, object]:
    """Text parts joined, so that templates see one string, as most of them expect."""
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        raise ConfigError(f"{where} has no role: give `user`, `assistant` or `system`")
    if isinstance(content, str):
        return {**message, "role": role, "content": content}
    if not isinstance(content, Sequence):
        raise ConfigError(f"{where}.content must be a text or a list of text parts")
    texts = []
    for i, part in enumerate(content):
        text = (
            part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
        )
        if not isinstance(text, str):
            raise ConfigError(f"{where}.content[{i}] is not a text part; only text is supported")
        texts.append(text)
    return {**message, "role": role, "content": "".join(texts)}


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _tojson(value: object, **options: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False, **options})


class _GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}`: the body, as if the tag were not there."""

    tags = {"generation"}  # noqa: RUF012, Jinja's own declaration

    def parse(self, parser: Parser) -> nodes.Node:
        """Parse the body up to the closing tag."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)
