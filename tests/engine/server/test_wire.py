import msgspec
import pytest

from engine.batch import TokenLogprobs
from engine.messages import (
    Abort,
    Add,
    CacheReset,
    CoreOutput,
    End,
    Failed,
    OpenText,
    Piece,
    Ready,
    ResetCache,
    SetLevel,
    Shutdown,
    StartPhase,
    Stats,
    StepOutputs,
    TextOutputs,
    TextReady,
)
from engine.request import Request, SamplingParams
from engine.server.wire import decode, encode
from tracing.record import Code, Phase

REQUEST = Request(
    request_id=(3 << 32) + 1,
    prompt_token_ids=[1, 2, 3],
    params=SamplingParams(
        seed=2**63 - 1,
        stop=("a", "b"),
        stop_token_ids=(5,),
        max_tokens=None,
        logit_bias={5: -1.5},
    ),
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


STATS = Stats(1, 2, 3, 4, None, 5, 6, 7, 8)
OUTPUTS = [
    CoreOutput(7, 4, 99, (5,), (TokenLogprobs(5, -0.5, 1, ((5, -0.5), (6, -1.0))),), END),
    CoreOutput(8, 4, 99, (1, 2)),
]
PHASES = (StartPhase("load weights", 5, 9),)
READY = Ready("/x", 64, 33, 16, {"kv": 2**40}, {"policy": "vllm", "watermark": 0.1}, 2, 0, PHASES)


@pytest.mark.parametrize(
    "message",
    [
        Add(REQUEST),
        Abort(7, Code.ABORT_DISCONNECT, 3),
        SetLevel(2),
        ResetCache(),
        Shutdown(),
        OpenText(7, [1, 2], REQUEST.params),
        StepOutputs(OUTPUTS, STATS),
        TextReady(),
        TextOutputs(OUTPUTS, [Piece("a", 1, None, 7), Piece("", 0, 2, 0)], STATS, 12),
        CacheReset(None),
        READY,
        Failed("it does not fit"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_arrive_as_they_were(message) -> None:
    assert decode(encode(message)) == message


def test_foreign_bytes_are_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode([b"\x00", b"\xc1"])
    with pytest.raises(msgspec.ValidationError):
        decode([b"\x01", msgspec.msgpack.encode({"request_id": "seven", "code": 1})])
