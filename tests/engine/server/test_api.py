"""The server end to end, asked by OpenAI's own client."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind

from engine.text.tokenizer import Tokenizer
from tests.engine.server.conftest import (
    MODEL,
    Server,
    assert_everything_is_free,
    end_of,
    post,
    wait_for,
)
from tracing.record import Code, Kind, Phase

CHAT = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"temperature": 0, "max_tokens": 16}


def test_a_chat_is_answered(server: Server) -> None:
    answer = server.client().chat.completions.create(model=MODEL, messages=CHAT, **GREEDY)
    [choice] = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert 1 <= answer.usage.completion_tokens <= 16
    raw = post(server, "/v1/chat/completions", {"messages": CHAT, **GREEDY}).json()
    ChatCompletion.model_validate(raw, strict=True)
    assert raw["choices"][0]["message"]["content"] == choice.message.content


def test_a_stream_joins_to_the_whole_answer(server: Server) -> None:
    client = server.client()
    whole = client.chat.completions.create(model=MODEL, messages=CHAT, **GREEDY)
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=CHAT,
            stream=True,
            stream_options={"include_usage": True},
            **GREEDY,
        )
    )
    *pieces, last = chunks
    assert last.choices == []
    assert last.usage is not None
    assert whole.usage is not None
    assert last.usage.completion_tokens == whole.usage.completion_tokens
    assert all(piece.usage is None for piece in pieces)
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces)
    assert text == whole.choices[0].message.content
    assert pieces[0].choices[0].delta.role == "assistant"
    assert all(piece.choices[0].delta.role is None for piece in pieces[1:])
    reasons = [piece.choices[0].finish_reason for piece in pieces]
    assert reasons == [None] * (len(pieces) - 1) + [whole.choices[0].finish_reason]
    assert len({chunk.id for chunk in chunks}) == 1


def test_a_stream_is_server_sent_events_that_end_with_done(server: Server) -> None:
    body = {"messages": CHAT, "stream": True, **GREEDY}
    response = post(server, "/v1/chat/completions", body)
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, done, rest = response.text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    for event in events:
        chunk = json.loads(event.removeprefix("data: "))
        ChatCompletionChunk.model_validate(chunk, strict=True)
        assert "usage" not in chunk, "usage was not asked for"


def test_prompts_of_every_form_are_continued(server: Server, byte_level: Tokenizer) -> None:
    client = server.client()
    token_ids = byte_level.encode("The quick brown")
    forms = ["The quick brown", ["The quick brown"], token_ids, [token_ids]]
    answers = [client.completions.create(model=MODEL, prompt=form, **GREEDY) for form in forms]
    assert len({answer.choices[0].text for answer in answers}) == 1
    raw = post(server, "/v1/completions", {"prompt": "The quick brown", **GREEDY}).json()
    Completion.model_validate(raw, strict=True)


def test_several_prompts_with_several_choices_are_numbered_through(server: Server) -> None:
    body = {"model": MODEL, "prompt": ["The", "What"], "n": 2, "seed": 5, "max_tokens": 6}
    whole = server.client().completions.create(**body)
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == 2
    texts = ["", "", "", ""]
    for chunk in server.client().completions.create(**body, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [choice.text for choice in whole.choices]
    assert len(set(texts)) == 4


def test_the_second_asking_finds_its_prefix_cached(server: Server) -> None:
    messages = [{"role": "user", "content": "The lazy dog sleeps in the sun. " * 5}]
    client = server.client()
    usages = []
    for _ in range(2):
        answer = client.chat.completions.create(
            model=MODEL, messages=messages, max_tokens=2, extra_body={"cache_salt": "mine"}
        )
        usages.append(answer.usage)
    first, second = (usage.prompt_tokens_details.cached_tokens for usage in usages)
    assert first == 0
    assert usages[1].prompt_tokens - 16 <= second < usages[1].prompt_tokens
    salted = client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=2, extra_body={"cache_salt": "other"}
    )
    assert salted.usage.prompt_tokens_details.cached_tokens == 0


def test_logprobs_of_a_chat(server: Server) -> None:
    answer = server.client().chat.completions.create(
        model=MODEL, messages=CHAT, logprobs=True, top_logprobs=3, **GREEDY
    )
    [choice] = answer.choices
    assert choice.logprobs is not None
    entries = choice.logprobs.content
    assert len(entries) == answer.usage.completion_tokens
    for entry in entries:
        assert len(entry.top_logprobs) == 3
        assert entry.top_logprobs[0].token == entry.token
        assert entry.logprob == entry.top_logprobs[0].logprob < 0
    said = b"".join(bytes(entry.bytes) for entry in entries).decode(errors="replace")
    assert said.removesuffix("<|end|>") == choice.message.content


def as_text(token: str) -> str:
    """A token's text; parts of characters are named by their bytes."""
    if not token.startswith("bytes:"):
        return token
    return bytes.fromhex(token.removeprefix("bytes:").replace("\\x", "")).decode(errors="replace")


def test_logprobs_of_a_completion_whole_and_streamed(server: Server) -> None:
    body = {"model": MODEL, "prompt": "The quick", "logprobs": 2, **GREEDY}
    whole = server.client().completions.create(**body).choices[0].logprobs
    shown = [len(as_text(token)) for token in whole.tokens]
    assert whole.text_offset == [sum(shown[:i]) for i in range(len(shown))]
    assert all(len(top) == 2 for top in whole.top_logprobs)
    tokens, offsets, values = [], [], []
    for chunk in server.client().completions.create(**body, stream=True):
        part = chunk.choices[0].logprobs
        tokens += part.tokens
        offsets += part.text_offset
        values += part.token_logprobs
    assert (tokens, offsets) == (whole.tokens, whole.text_offset)
    assert values == whole.token_logprobs


def test_a_stop_string_ends_the_answer(server: Server) -> None:
    ask = server.client().completions.create
    free = ask(model=MODEL, prompt="The quick", temperature=0, max_tokens=40).choices[0]
    stop = free.text[4:7]
    assert len(stop) == 3
    for stream in (False, True):
        body = {"prompt": "The quick", "temperature": 0, "max_tokens": 40, "stop": [stop, "~~"]}
        if stream:
            chunks = list(ask(model=MODEL, stream=True, **body))
            text = "".join(chunk.choices[0].text for chunk in chunks)
            reason = chunks[-1].choices[0].finish_reason
        else:
            raw = post(server, "/v1/completions", body).json()["choices"][0]
            text, reason = raw["text"], raw["finish_reason"]
            assert raw["stop_reason"] == stop
        assert text == free.text[: free.text.index(stop)]
        assert reason == "stop"


def test_extra_fields_reach_the_sampler(server: Server) -> None:
    ask = server.client().completions.create
    greedy = ask(model=MODEL, prompt="The", **GREEDY).choices[0].text
    extra = {"top_k": 1, "ignore_eos": True, "min_tokens": 3, "min_p": 0.1}
    narrow = ask(model=MODEL, prompt="The", max_tokens=16, temperature=2, extra_body=extra)
    assert narrow.choices[0].text.startswith(greedy)
    assert narrow.choices[0].finish_reason == "length"


def test_without_max_tokens_a_chat_may_fill_the_context(server: Server) -> None:
    with server.client().chat.completions.create(
        model=MODEL, messages=CHAT, stream=True, extra_body={"ignore_eos": True}
    ) as stream:
        first = next(iter(stream))
    asked = [r for r in server.trace.records(Kind.REQUEST) if first.id.encode() in r["text"]]
    assert asked[0]["max_tokens"] == 16384 - asked[0]["num_prompt_tokens"]
    end_of(server, first.id)


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "param", "said"),
    [
        ({"messages": CHAT, "tools": []}, "tools", "tools is not supported"),
        ({"messages": CHAT, "temprature": 1}, "temprature", "not supported"),
        ({"messages": []}, "messages", "at least 1"),
        ({}, "messages", "required"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role", "'user'"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages.0.content.0.type",
            "'text'",
        ),
        ({"messages": CHAT, "temperature": "hot"}, "temperature", "number"),
        ({"messages": CHAT, "temperature": -1}, None, "temperature must be in"),
        ({"messages": CHAT, "stop": [5]}, "stop.0", "string"),
        ({"messages": CHAT, "n": 1000}, "n", "128"),
        ({"messages": CHAT, "top_logprobs": 2}, None, "top_logprobs needs logprobs"),
        ({"messages": CHAT, "logprobs": True, "top_logprobs": 21}, None, "logprobs must be in"),
        ({"messages": CHAT, "stream_options": {}}, None, "stream_options is only allowed"),
        ({"messages": CHAT, "max_tokens": 0}, None, "max_tokens must be at least 1"),
        ({"messages": CHAT, "seed": -1}, None, "seed must be"),
        ({"messages": CHAT, "priority": 2}, "priority", "in their order of arrival"),
        ({"messages": CHAT, "max-tokens": 3}, "max-tokens", "max-tokens is not supported"),
        (
            {"messages": [{"role": "user", "content": "x", "tool calls": 1}]},
            "messages.0.tool calls",
            "tool calls is not supported",
        ),
    ],
)
def test_a_wrong_field_is_named(server: Server, body: dict, param: str | None, said: str) -> None:
    response = post(server, "/v1/chat/completions", body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert said in error["message"]


def test_harmless_and_null_fields_are_accepted(server: Server) -> None:
    body = {
        "messages": [{"role": "developer", "content": [{"type": "text", "text": "Hi"}]}],
        "max_completion_tokens": 2,
        "user": "someone",
        "metadata": {"a": "b"},
        "tools": None,
        "stop": None,
        "temperature": None,
    }
    assert post(server, "/v1/chat/completions", body).status_code == 200


def test_other_refusals_have_openais_shape(server: Server) -> None:
    client = server.client()
    with pytest.raises(openai.NotFoundError) as missing:
        client.chat.completions.create(model="gpt-5", messages=CHAT)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="context of 16384"):
        client.completions.create(model=MODEL, prompt=[5] * 16384)
    for prompt in ("", [], [[]], ["fine", ""]):
        with pytest.raises(openai.BadRequestError, match="prompt is empty"):
            client.completions.create(model=MODEL, prompt=prompt)
    with pytest.raises(openai.BadRequestError, match="token id 400 is not in the vocabulary"):
        client.completions.create(model=MODEL, prompt=[400])
    with pytest.raises(openai.NotFoundError, match="GET /v1/files"):
        client.files.list()
    text = httpx.post(f"{server.url}/v1/completions", content=b"{", timeout=60)
    assert text.status_code == 415
    headers = {"content-type": "application/json"}
    broken = httpx.post(f"{server.url}/v1/completions", content=b"{", headers=headers, timeout=60)
    assert broken.status_code == 400
    assert "not valid JSON" in broken.json()["error"]["message"]
    wrong = httpx.get(f"{server.url}/v1/completions", timeout=60)
    assert (wrong.status_code, "error" in wrong.json()) == (405, True)


def test_a_refusal_is_in_the_trace(server: Server) -> None:
    for status, body, code in (
        (400, {"prompt": [5] * 16384}, Code.REJECT_TOO_LONG),
        (400, {"prompt": "x", "best_of": 3}, Code.REJECT_BAD),
        (404, {"prompt": "x", "model": "gpt-5"}, Code.REJECT_BAD),
    ):
        headers = {"x-request-id": f"refused-{status}-{code}"}
        assert post(server, "/v1/completions", body, **headers).status_code == status
        end = end_of(server, f"cmpl-refused-{status}-{code}")
        assert (end["code"], end["http_status"]) == (code, status)


# -- the model and health --------------------------------------------------------------------------


def test_the_model_is_listed_under_its_folders_name(server: Server) -> None:
    client = server.client()
    [model] = client.models.list().data
    assert model.id == MODEL
    assert client.models.retrieve(MODEL).owned_by == "cutaway"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("owner/other")
    assert httpx.get(f"{server.url}/health", timeout=60).json() == {"status": "ok", "reason": None}


# -- the trace -------------------------------------------------------------------------------------


def test_the_callers_trace_is_continued(server: Server) -> None:
    trace_id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = {"traceparent": f"00-{trace_id}-{parent}-01", "tracestate": "vendor=value"}
    answer = server.client().chat.completions.create(
        model=MODEL, messages=CHAT, extra_headers=headers, **GREEDY
    )
    end_of(server, answer.id)

    def ours() -> list[ReadableSpan]:
        spans = [s for s in server.trace.spans() if f"{s.context.trace_id:032x}" == trace_id]
        return spans if any(s.kind is SpanKind.SERVER for s in spans) else []

    spans = wait_for(ours, "the SERVER span")
    [http] = [s for s in spans if s.kind is SpanKind.SERVER]
    [chat] = [s for s in spans if s.name == f"chat {MODEL}"]
    assert http.name == "POST /v1/chat/completions"
    assert f"{http.parent.span_id:016x}" == parent
    assert http.context.trace_state["vendor"] == "value"
    assert http.attributes["http.response.status_code"] == 200
    assert http.attributes["http.route"] == "/v1/chat/completions"
    assert http.attributes["server.port"] == int(server.url.rsplit(":", 1)[1])
    assert chat.parent.span_id == http.context.span_id
    assert chat.attributes["gen_ai.response.id"] == answer.id
    assert chat.attributes["gen_ai.usage.output_tokens"] == answer.usage.completion_tokens
    assert chat.attributes["gen_ai.response.time_to_first_chunk"] > 0
    phases = [s for s in spans if s.parent.span_id == chat.context.span_id]
    assert {s.name for s in phases} >= {
        *("receive", "tokenise", "to_core", "queue", "prefill", "to_api", "deliver"),
    }
    assert min(s.start_time for s in phases) == chat.start_time
    assert http.start_time <= chat.start_time < chat.end_time <= http.end_time
    [asked] = [r for r in server.trace.records(Kind.REQUEST) if answer.id.encode() in r["text"]]
    assert asked["server_span"] & (2**64 - 1) == http.context.span_id
    assert asked["span_id"] & (2**64 - 1) == chat.context.span_id


def test_front_end_and_core_agree_on_a_request(server: Server) -> None:
    answer = server.client().completions.create(
        model=MODEL, prompt="The quick", max_tokens=8, extra_body={"ignore_eos": True}
    )
    end = end_of(server, answer.id)
    request_id = end["request_id"]
    assert (end["code"], end["http_status"]) == (Code.END_LENGTH, 200)
    rows = [r for r in server.core_records(Kind.ROW) if r["request_id"] == request_id]
    assert sum(row["num_sampled_tokens"] for row in rows) == end["num_output_tokens"] == 8
    phases = [r for r in server.trace.records(Kind.PHASE) if r["request_id"] == request_id]
    decode = next(r for r in phases if r["phase"] == Phase.DECODE)
    assert decode["last_step"] - decode["first_step"] == 6
    steps = {r["collected_ns"] for r in server.core_records(Kind.STEP)}
    assert decode["start_ns"] in steps, "one clock for both processes"
    assert decode["end_ns"] in steps


# -- clients that go away --------------------------------------------------------------------------

ENDLESS = {"max_tokens": 16000, "ignore_eos": True}


def test_a_client_that_leaves_a_stream_frees_its_blocks(server: Server) -> None:
    with server.client().completions.create(
        model=MODEL, prompt="The", stream=True, max_tokens=16000, extra_body={"ignore_eos": True}
    ) as stream:
        first = next(iter(stream))
    end = end_of(server, first.id)
    assert (end["code"], end["http_status"]) == (Code.ABORT_DISCONNECT, 200)
    assert 0 < end["num_output_tokens"] < 16000
    assert_everything_is_free(server)


def test_a_client_that_stops_waiting_for_a_whole_answer_frees_its_blocks(server: Server) -> None:
    body = {"prompt": "The", **ENDLESS}
    headers = {"x-request-id": "impatient"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/v1/completions", json=body, headers=headers, timeout=0.3)
    end = end_of(server, "cmpl-impatient")
    assert (end["code"], end["http_status"]) == (Code.ABORT_DISCONNECT, 499)
    assert_everything_is_free(server)


def test_requests_at_once_share_steps_and_get_their_own_answers(server: Server) -> None:
    prompts = ["The quick", "What is", "Emoji: 😀", "大模型", "the dog", "capital"]
    ask = server.client().completions.create
    alone = [ask(model=MODEL, prompt=p, **GREEDY).choices[0].text for p in prompts]
    with ThreadPoolExecutor(len(prompts)) as pool:
        answers = pool.map(lambda p: ask(model=MODEL, prompt=p, **GREEDY), prompts)
        assert [answer.choices[0].text for answer in answers] == alone
