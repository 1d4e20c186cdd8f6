"""Tokenizer: the model folder's own text <-> token ids, without loading the model or torch.

`tokenizer.json` holds the whole pipeline (split, merge, special tokens, decode), so the front end needs only
the `tokenizers` library; a server process starts in a fraction of a second. Around it: which ids end a text,
the chat template, and the bytes of single tokens, which log-probabilities show.

Invariant: `b"".join(token_bytes(id))` is the UTF-8 of the decoded text (up to a space at its very start,
which Metaspace tokenizers drop); one token alone may be half a character.

Source: tokenizers 0.23; byte alphabet of GPT-2 `encoder.py`; vLLM 0.33 for which ids stop
(`eos_token_id` of the tokenizer, more of them from `generation_config.json`).
"""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from engine.errors import ConfigError, ModelError
from engine.text.chat_template import ChatTemplate, Message

MAX_SHRINK = 4
"""Normalisation (NFC, NFKC) may write a text with so many times fewer characters."""


class Tokenizer:
    """Text and token ids of one model. Encoding and decoding are safe to call from several threads."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        eos_token_id: int | None = None,
        stop_token_ids: tuple[int, ...] = (),
        chat_template: ChatTemplate | None = None,
    ) -> None:
        # A file may carry the padding and truncation of its training set-up.
        backend.no_padding()
        backend.no_truncation()
        self.backend = backend
        self.eos_token_id = eos_token_id
        self.stop_token_ids = stop_token_ids
        """Further ids that end a text by the model's own word, e.g. end of turn."""
        self._chat_template = chat_template
        self.vocab_size = backend.get_vocab_size(with_added_tokens=True)

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """Read a Hugging Face model folder. Raises ModelError when it has no usable tokenizer."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise ModelError(
                f"{folder} has no tokenizer.json; save one with "
                "`AutoTokenizer.from_pretrained(...).save_pretrained(folder)`"
            )
        try:
            backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception on a bad file
            raise ModelError(f"{path} cannot be read: {error}") from error
        config = _read_json(folder / "tokenizer_config.json")
        special = {
            name: text
            for name in ("bos_token", "eos_token", "pad_token", "unk_token")
            if (text := _token_text(config.get(name))) is not None
        }
        eos_token_id, others = _end_ids(backend, special.get("eos_token"), folder)
        template = _template_source(folder, config)
        return cls(
            backend,
            eos_token_id=eos_token_id,
            stop_token_ids=others,
            chat_template=None if template is None else ChatTemplate(template, special),
        )

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a text, with the model's start token where it has one."""
        # In a batch of one, because only batches let other threads run meanwhile.
        (found,) = self.backend.encode_batch_fast([text], add_special_tokens=add_special_tokens)
        return list(found.ids)

    def fewest_tokens(self, num_chars: int) -> int:
        """A text of so many characters has so many tokens or more; known without reading it."""
        return num_chars // (self._longest_token * MAX_SHRINK)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of a chat, ready for the assistant's next turn.

        Raises ModelError when the model has no chat template, ConfigError when it refuses the messages.
        """
        if self._chat_template is None:
            raise ModelError(
                "this model has no chat template: ask for a completion of plain text instead, or add "
                "a chat_template.jinja to the model's folder"
            )
        # The template writes the special tokens itself.
        return self.encode(self._chat_template.render(messages), add_special_tokens=False)

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of token ids; broken UTF-8 shows as U+FFFD."""
        return str(self.backend.decode(token_ids, skip_special_tokens=skip_special_tokens))

    def check_ids(self, token_ids: Sequence[int]) -> None:
        """Raises ConfigError if an id is not in the vocabulary."""
        bad = next((t for t in token_ids if not 0 <= t < self.vocab_size), None)
        if bad is not None:
            raise ConfigError(
                f"token id {bad} is not in the vocabulary of {self.vocab_size} tokens"
            )

    def token_bytes(self, token_id: int) -> bytes:
        """UTF-8 bytes that a token stands for, its leading space included; a special token is its name.

        Empty for an id without a token: a model's table may be longer than its tokenizer's.
        """
        token = self.backend.id_to_token(token_id)
        if token is None:
            return b""
        if token_id in self._added_ids:
            return str(token).encode()
        if self._is_byte_level:
            return bytes(_BYTE_OF_CHAR[char] for char in token)
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            return bytes([int(token[3:5], 16)])
        return str(token).replace("\u2581", " ").encode()

    @cached_property
    def _longest_token(self) -> int:
        """In bytes, and so at least in characters."""
        return max((len(self.token_bytes(i)) for i in range(self.vocab_size)), default=1) or 1

    @cached_property
    def _added_ids(self) -> frozenset[int]:
        return frozenset(self.backend.get_added_tokens_decoder())

    @cached_property
    def _is_byte_level(self) -> bool:
        """Whether tokens are written in the byte alphabet (GPT-2, Llama 3, Qwen), not in Metaspace's."""
        spec = json.loads(self.backend.to_str())["decoder"] or {}
        steps = [spec, *spec.get("decoders", ())]
        return any(step.get("type") == "ByteLevel" for step in steps)


def _byte_alphabet() -> dict[str, int]:
    """Each byte has a printable character: itself where it is printable, else one from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    shifted = {chr(0x100 + i): byte for i, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


_BYTE_OF_CHAR = _byte_alphabet()


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path} is not valid JSON: {error}") from error
    return content if isinstance(content, dict) else {}


def _token_text(value: object) -> str | None:
    """A special token is written as its text, or as an object with `content`."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _end_ids(
    backend: tokenizers.Tokenizer, eos_token: str | None, folder: Path
) -> tuple[int | None, tuple[int, ...]]:
    """The end-of-sequence id, and the other ids that the model's own files name as ends."""
    ids: list[int] = []
    if eos_token is not None and (eos := backend.token_to_id(eos_token)) is not None:
        ids.append(eos)
    for name in ("generation_config.json", "config.json"):
        named = _read_json(folder / name).get("eos_token_id")
        ids += named if isinstance(named, list) else [] if named is None else [named]
    unique = list(dict.fromkeys(ids))
    return (unique[0], tuple(unique[1:])) if unique else (None, ())


def _template_source(folder: Path, config: Mapping[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):  # several, by name
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None
