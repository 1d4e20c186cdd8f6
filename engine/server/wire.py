"""Messages as bytes: one frame for the kind, one for the fields (MessagePack).

    [b"\\x01", {"request_id": 7, "code": 812, "a0": 3}]        Abort

The dataclasses of `engine.messages` are encoded as they are, by msgspec, which checks types when it decodes.

Source: vLLM 0.33 `vllm/v1/serial_utils.py`, request types of `vllm/v1/engine/__init__.py`.
"""

from typing import Any

import msgspec

from engine.messages import (
    Abort,
    Add,
    CacheReset,
    Failed,
    FromEngine,
    OpenText,
    Ready,
    ResetCache,
    SetLevel,
    Shutdown,
    Steer,
    Steered,
    StepOutputs,
    TextOutputs,
    TextReady,
    ToCore,
)

Message = ToCore | FromEngine | OpenText
_KINDS: tuple[type, ...] = (
    *(Add, Abort, SetLevel, ResetCache, Shutdown, OpenText, Steer),
    *(StepOutputs, TextReady, TextOutputs, CacheReset, Ready, Failed, Steered),
)
_ENCODER = msgspec.msgpack.Encoder()
_DECODERS: list[msgspec.msgpack.Decoder[Any]] = [msgspec.msgpack.Decoder(kind) for kind in _KINDS]


def encode(message: Message) -> list[bytes]:
    """Frames of a message."""
    return [bytes([_KINDS.index(type(message))]), _ENCODER.encode(message)]


def decode(frames: list[bytes]) -> Message:
    """The message of these frames. Raises msgspec.DecodeError on foreign bytes."""
    message: Message = _DECODERS[frames[0][0]].decode(frames[1])
    return message
