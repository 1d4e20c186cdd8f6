"""Messages as bytes: one frame for the kind, one for the fields (MessagePack).

    [b"\\x01", {"request_id": 7, "code": 812, "a0": 3}]        Abort

The dataclasses of `engine.messages` are encoded as they are, by msgspec, which checks types when it decodes.

Source: vLLM 0.33 `vllm/v1/serial_utils.py`, request types of `vllm/v1/engine/__init__.py`.
"""

from typing import Any, cast

import msgspec

from engine.messages import (
    Abort,
    Add,
    CoreOutput,
    Failed,
    FromCore,
    Ready,
    SetLevel,
    Shutdown,
    ToCore,
)

_TO_CORE: tuple[type, ...] = (Add, Abort, SetLevel, Shutdown)
_FROM_CORE: tuple[type, ...] = (list, Ready, Failed)
_ENCODER = msgspec.msgpack.Encoder()
_TO_CORE_DECODERS: list[msgspec.msgpack.Decoder[Any]] = [
    msgspec.msgpack.Decoder(kind) for kind in _TO_CORE
]
_FROM_CORE_DECODERS: list[msgspec.msgpack.Decoder[Any]] = [
    msgspec.msgpack.Decoder(list[CoreOutput] if kind is list else kind) for kind in _FROM_CORE
]


def encode_to_core(message: ToCore) -> list[bytes]:
    """Frames of a message from the front end."""
    return [bytes([_TO_CORE.index(type(message))]), _ENCODER.encode(message)]


def decode_to_core(frames: list[bytes]) -> ToCore:
    """The message of these frames. Raises msgspec.DecodeError on foreign bytes."""
    return cast(ToCore, _TO_CORE_DECODERS[frames[0][0]].decode(frames[1]))


def encode_from_core(message: FromCore) -> list[bytes]:
    """Frames of a message from the core."""
    return [bytes([_FROM_CORE.index(type(message))]), _ENCODER.encode(message)]


def decode_from_core(frames: list[bytes]) -> FromCore:
    """The message of these frames. Raises msgspec.DecodeError on foreign bytes."""
    return cast(FromCore, _FROM_CORE_DECODERS[frames[0][0]].decode(frames[1]))
