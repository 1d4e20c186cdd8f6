import msgspec
import pytest

from engine.batch import TokenLogprobs
from engine.messages import Abort, Add, CoreOutput, End, Failed, Ready, SetLevel, Shutdown
from engine.request import Request, SamplingParams
from engine.server.wire import (
    decode_from_core,
    decode_to_core,
    encode_from_core,
    encode_to_core,
)
from tracing.record import Code, Phase

REQUEST = Request(
    request_id=(3 << 32) + 1,
    prompt_token_ids=[1, 2, 3],
    params=SamplingParams(seed=2**63 - 1, stop=("a", "b"), stop_token_ids=(5,), max_tokens=None),
    arrival_ns=10**18,
    sent_ns=10**18 + 5,
    eos_token_id=2,
    cache_salt="盐",
)
END = End(
    code=Code.END_STOP_TOKEN,
    a0=5,
    end_ns=99,
    last_step=4,
    num_cached_tokens=None,
    num_recomputed_tokens=0,
    num_preemptions=1,
    phases=((Phase.TO_CORE, 1, -1), (Phase.QUEUE, 2, -1), (Phase.PREFILL, 3, 4)),
)


@pytest.mark.parametrize(
    "message",
    [Add(REQUEST), Abort(7, Code.ABORT_DISCONNECT, 3), SetLevel(2), Shutdown()],
    ids=lambda message: type(message).__name__,
)
def test_messages_to_the_core_arrive_as_they_were(message) -> None:
    assert decode_to_core(encode_to_core(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        [
            CoreOutput(7, 4, 99, (5,), (TokenLogprobs(5, -0.5, 1, ((5, -0.5), (6, -1.0))),), END),
            CoreOutput(8, 4, 99, (1, 2)),
        ],
        Ready("/models/x", 64, 33, 16, {"kv": 2**40}, {"policy": "vllm", "watermark": 0.1}),
        Failed("it does not fit"),
    ],
    ids=["outputs", "Ready", "Failed"],
)
def test_messages_from_the_core_arrive_as_they_were(message) -> None:
    assert decode_from_core(encode_from_core(message)) == message


def test_foreign_bytes_are_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_to_core([b"\x00", b"\xc1"])
    with pytest.raises(msgspec.ValidationError):
        decode_to_core([b"\x01", msgspec.msgpack.encode({"request_id": "seven", "code": 1})])
