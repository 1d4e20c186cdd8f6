"""What the server does not take, or not for ever: full queues, long requests, absurd values, cancels."""

import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import httpx
import openai
import pytest
from opentelemetry.sdk.trace import ReadableSpan

from engine.server.settings import ServerSettings
from tests.engine.server.conftest import (
    MODEL,
    Server,
    assert_everything_is_free,
    end_of,
    post,
    wait_for,
)
from tracing.record import Code, Kind, Phase

ENDLESS = {"prompt": "The", "max_tokens": 16000, "ignore_eos": True}
RAW = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def narrow(start_server: Callable[..., Server]) -> Server:
    """One request runs, one may wait, and none longer than two seconds."""
    return start_server(
        settings=ServerSettings(max_waiting=1, request_timeout_s=2.0), max_num_seqs=1
    )


def open_stream(server: Server, name: str, **more: Any) -> "threading.Thread":
    """A streamed request that somebody else reads to its end."""
    body, headers = {**ENDLESS, "stream": True, **more}, {"x-request-id": name}
    thread = threading.Thread(target=post, args=(server, "/v1/completions", body), kwargs=headers)
    thread.start()
    wait_for(lambda: is_known(server, name), f"the arrival of {name}")
    return thread


def is_known(server: Server, name: str) -> bool:
    asked = server.trace.records(Kind.REQUEST)
    return any(name == json.loads(r["text"])["external_id"].split("-", 1)[1] for r in asked)


def test_a_full_queue_refuses_and_says_when_to_come_back(narrow: Server) -> None:
    threads = [open_stream(narrow, "runs"), open_stream(narrow, "waits")]
    refused = post(narrow, "/v1/completions", {"prompt": "x"}, **{"x-request-id": "late"})
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.json()["error"]["code"] == "queue_full"
    assert "the limit is 1" in refused.json()["error"]["message"]
    end = end_of(narrow, "late")
    assert (end["code"], end["a0"], end["http_status"]) == (Code.REJECT_QUEUE, 1, 429)
    metrics = httpx.get(f"{narrow.url}/metrics", timeout=60).text
    assert f'cutaway:requests_total{{end="reject_queue",model_name="{MODEL}"}} 1.0' in metrics
    assert f'vllm:num_requests_waiting{{engine="0",model_name="{MODEL}"}} 1.0' in metrics
    for thread in threads:
        thread.join()
    assert [end_of(narrow, name)["code"] for name in ("runs", "waits")] == [Code.ABORT_TIMEOUT] * 2
    too_many = post(narrow, "/v1/completions", {"prompt": "x", "n": 3, "temperature": 1})
    assert (too_many.status_code, "at most 2" in too_many.text) == (400, True)
    assert (
        post(narrow, "/v1/completions", {"prompt": ["x", "y"], "max_tokens": 1}).status_code == 200
    )


def test_a_request_that_takes_too_long_is_ended_and_told(narrow: Server) -> None:
    whole = post(narrow, "/v1/completions", ENDLESS, **{"x-request-id": "long"})
    assert whole.status_code == 504
    assert whole.json()["error"]["code"] == "request_timeout"
    assert "limit of 2 s" in whole.json()["error"]["message"]
    end = end_of(narrow, "cmpl-long")
    assert (end["code"], end["a0"], end["http_status"]) == (Code.ABORT_TIMEOUT, 2000, 504)
    with pytest.raises(openai.APIError, match="took longer than this server's limit"):
        list(
            narrow.client().completions.create(
                model=MODEL,
                stream=True,
                prompt="The",
                max_tokens=16000,
                extra_body={"ignore_eos": True},
            )
        )
    assert_everything_is_free(narrow)
    [span] = [
        s for s in narrow.trace.spans() if s.attributes.get("gen_ai.response.id") == "cmpl-long"
    ]
    assert span.attributes["error.type"] == "abort_timeout"
    assert span.status.description == "timed out"
    metrics = httpx.get(f"{narrow.url}/metrics", timeout=60).text
    assert 'cutaway:requests_total{end="abort_timeout"' in metrics


def test_a_core_that_hangs_holds_nobody_beyond_the_limit(narrow: Server) -> None:
    os.kill(narrow.core_pid, signal.SIGSTOP)
    try:
        whole = post(narrow, "/v1/completions", ENDLESS, **{"x-request-id": "hung"})
    finally:
        os.kill(narrow.core_pid, signal.SIGCONT)
    assert whole.status_code == 504
    end = end_of(narrow, "cmpl-hung")
    assert (end["code"], end["a0"], end["http_status"]) == (Code.ABORT_TIMEOUT, 2000, 504)
    assert_everything_is_free(narrow)


# -- bodies that cannot be meant -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"null", "should be an object"),
        (b"[]", "should be an object"),
        (b'{"prompt": "\xff\xfe"}', "not valid JSON: Invalid JSON: invalid unicode"),
        (b'{"prompt": "\\ud800"}', "not valid JSON"),
        (b'{"prompt": "x", "temperature": NaN}', "finite"),
        (b'{"prompt": "x", "temperature": 1e999}', "number"),
        (b'{"prompt": "x", "temperature": 1e39}', "temperature must be"),
        (b'{"prompt": "' + b"x" * 8_000_000 + b'"}', "at least"),
        (
            b'{"prompt": "x", ' + b", ".join(b'"f%d": 1' % i for i in range(500_000)) + b"}",
            "500001 fields",
        ),
        (b'{"prompt": "x", "seed": ' + b"9" * 5000 + b"}", "out of range"),
        (b'{"prompt": "x", "top_k": 99999999999999}', "top_k must be"),
        (b'{"prompt": "x", "repetition_penalty": 1e-300}', "repetition_penalty must be"),
        (b'{"prompt": "x", "presence_penalty": 1e300}', "presence_penalty must be"),
        (b'{"prompt": "x", "logit_bias": {"0": 1e300}}', "logit_bias must be"),
        (b'{"prompt": "x", "logit_bias": {"399999": 1}}', "not in the vocabulary"),
        (b'{"prompt": "x", "logit_bias": {"-1": 1}}', "logit_bias"),
        (b'{"prompt": "x", "stop_token_ids": [400]}', "not in the vocabulary"),
        (
            b'{"prompt": "x", "stop": [' + b'"a",' * 99 + b'"a"]}',
            "stop: List should have at most 64",
        ),
        (b'{"prompt": ' + b"[" * 10000 + b"]" * 10000 + b"}", "recursion limit"),
        (b'{"prompt": "x", "' + b"y" * 100000 + b'": 1}', "is not supported by this server"),
        (b'{"prompt": "x", "cache_salt": ""}', "cache_salt"),
        (b'{"prompt": "x", "n": 129}', "128"),
        (b'{"prompt": "x", "priority": 99999999999}', "priority"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value,
)
def test_absurd_bodies_are_refused_with_a_reason(server: Server, raw: bytes, said: str) -> None:
    answer = httpx.post(f"{server.url}/v1/completions", content=raw, headers=RAW, timeout=60)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert said in error["message"]
    assert error["type"] == "invalid_request_error"
    assert len(answer.content) < 1000, "what was sent is not sent back"


def test_a_prompt_longer_than_the_context_gets_the_numbers(server: Server) -> None:
    answer = post(server, "/v1/completions", {"prompt": [5] * 20000})
    assert answer.status_code == 400
    message = answer.json()["error"]["message"]
    assert "20000 tokens" in message
    assert "context of 16384" in message
    assert "Shorten the prompt" in message


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/tokenize", {"prompt": "a" * 8_000_000}, "at least"),
        ("/detokenize", {"tokens": [5] * 20_000}, "20000 tokens"),
        (
            "/v1/chat/completions",
            {"messages": [{"role": "user", "content": ""}] * 16_384},
            "tokens",
        ),
        ("/v1/chat/completions", {"messages": [{"role": "user"}] * 100_000}, "content"),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": ""}] * 17_000}, "16384"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value,
)
def test_what_cannot_fit_is_refused_before_it_costs_anything(
    server: Server, path: str, body: dict, said: str
) -> None:
    answer = post(server, path, body)
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]
    assert len(answer.content) < 1000


def test_values_at_the_edge_of_single_precision_are_sampled(server: Server) -> None:
    for odd in ({"top_p": 1e-46}, {"top_p": 1e-320}, {"temperature": 10000}, {"min_p": 1e-320}):
        body = {"prompt": "The", "max_tokens": 3, "min_tokens": 3, **odd}
        assert post(server, "/v1/completions", body).status_code == 200, odd


# -- who is cancelled, frees -----------------------------------------------------------------------


def leavers(server: Server) -> list[ReadableSpan]:
    """Spans of HTTP requests whose clients left, in the order of their ends."""
    return [s for s in server.trace.spans("POST /v1/completions") if s.events]


def steps_until_free(server: Server, name: str, span: ReadableSpan) -> int:
    """Steps that the core began after it was noticed that a client had gone, until its blocks were free."""
    asked = server.trace.records(Kind.REQUEST)
    [request] = [r for r in asked if json.loads(r["text"])["external_id"].endswith(name)]
    noticed_ns = span.events[0].timestamp - server.trace.epoch_offset_ns

    def frees() -> list[dict[str, Any]]:
        return [
            r
            for r in server.core_records(Kind.BLOCKS)
            if r["request_id"] == request["request_id"]
            and r["code"] in (Code.KV_FREE_BACK, Code.KV_FREE_FRONT)
        ]

    freed = wait_for(frees, "its blocks")[-1]
    steps = server.core_records(Kind.STEP)
    return sum(noticed_ns < step["start_ns"] < freed["ts_ns"] for step in steps)


def used_blocks(server: Server) -> int:
    return int(server.core_records(Kind.STEP)[-1]["used_blocks"])


@pytest.mark.parametrize("stream", [True, False])
def test_a_running_request_whose_client_leaves_frees_within_two_steps(
    server: Server, stream: bool
) -> None:
    found = []
    # A step of this model is shorter than the way of a message on a busy machine, so chance has a say.
    while not found or (min(found) > 2 and len(found) < 6):
        found.append(leave_and_count(server, f"leaves-{stream}-{len(found)}", stream))
    assert min(found) <= 2, found


def leave_and_count(server: Server, name: str, stream: bool) -> int:
    other = open_stream(server, f"{name}-beside", max_tokens=400)
    num_before = len(leavers(server))
    with httpx.Client(timeout=60) as client:
        body = json.dumps({**ENDLESS, "stream": stream})
        request = client.build_request(
            "POST",
            f"{server.url}/v1/completions",
            content=body,
            headers=RAW | {"x-request-id": name},
        )
        if stream:
            next(client.send(request, stream=True).iter_lines())
        else:
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(request.url, content=body, headers=request.headers, timeout=0.3)
    assert end_of(server, name)["code"] == Code.ABORT_DISCONNECT
    wait_for(lambda: used_blocks(server) > 0, "a step of the other request")
    wait_for(lambda: len(leavers(server)) > num_before, "the end of its span")
    num_steps = steps_until_free(server, name, leavers(server)[-1])
    other.join()
    assert_everything_is_free(server)
    return num_steps


def test_an_abort_call_ends_running_and_waiting_requests(
    start_server: Callable[..., Server],
) -> None:
    server = start_server(max_num_seqs=1)
    threads = [open_stream(server, name) for name in ("runs", "waits")]
    for name in ("waits", "runs"):
        answer = post(server, "/abort_request", {"rid": f"cmpl-{name}"})
        assert answer.json() == {"aborted": 1}
        end = end_of(server, name)
        assert (end["code"], end["http_status"]) == (Code.ABORT_CALL, 200)
    for thread in threads:
        thread.join()
    assert end_of(server, "waits")["num_cached_tokens"] is None, "it was never admitted"
    assert post(server, "/abort_request", {"rid": "cmpl-runs"}).json() == {"aborted": 0}
    assert_everything_is_free(server)


def test_whoever_waits_and_leaves_was_never_admitted(start_server: Callable[..., Server]) -> None:
    server = start_server(max_num_seqs=1)
    runs = open_stream(server, "runs", max_tokens=2000)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{server.url}/v1/completions",
            json=ENDLESS,
            headers={"x-request-id": "left"},
            timeout=0.3,
        )
    end = end_of(server, "left")
    assert (end["code"], end["num_output_tokens"]) == (Code.ABORT_DISCONNECT, 0)
    runs.join()
    assert_everything_is_free(server)


def test_first_come_first_served_lets_nobody_wait_for_ever(
    start_server: Callable[..., Server],
) -> None:
    """Newcomers never stop coming, and a long prompt that needs most of the pool is served in its turn."""
    server = start_server(
        max_num_seqs=4, num_blocks=41, max_model_len=300, max_num_batched_tokens=32
    )
    stop = threading.Event()

    def keep_coming() -> None:
        while not stop.is_set():
            post(
                server,
                "/v1/completions",
                {"prompt": "The sun", "max_tokens": 30, "ignore_eos": True},
            )

    crowd = [threading.Thread(target=keep_coming) for _ in range(6)]
    for thread in crowd:
        thread.start()
    try:
        long = post(
            server,
            "/v1/completions",
            {"prompt": [7] * 250, "max_tokens": 5},
            **{"x-request-id": "long"},
        )
        assert long.status_code == 200
    finally:
        stop.set()
        for thread in crowd:
            thread.join()
    end_of(server, "long")
    [asked] = [r for r in server.trace.records(Kind.REQUEST) if b"cmpl-long" in r["text"]]
    prefill = first_steps(server)
    own = asked["request_id"]  # numbers are given in the order in which prompts go to the core
    everyone = [r["request_id"] for r in server.trace.records(Kind.REQUEST)]
    assert all(prefill[number] <= prefill[own] for number in everyone if number < own)
    assert all(prefill[n] >= prefill[own] for n in everyone if n > own and n in prefill)


def first_steps(server: Server) -> dict[int, int]:
    """Request id -> the step that admitted it first."""
    rows = server.trace.records(Kind.PHASE)
    found: dict[int, int] = {}
    for row in rows:
        if row["phase"] == Phase.PREFILL:
            found.setdefault(row["request_id"], row["first_step"])
    return found
