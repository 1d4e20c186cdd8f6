"""Paths beside generation: text and tokens, control with `--dev`, the model's own sampling defaults."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import tracing
from engine.errors import ModelError
from engine.generation_config import sampling_defaults
from engine.server.settings import ServerSettings
from engine.text.tokenizer import Tokenizer
from tests.engine.server.conftest import MODEL, Server, end_of, post
from tests.engine.server.test_limits import open_stream
from tracing.record import Code, Kind, Level

CHAT = [{"role": "user", "content": "What is the sun?"}]


def test_text_and_tokens_go_both_ways(server: Server, byte_level: Tokenizer) -> None:
    text = "The quick 😀 大模型"
    answer = post(server, "/tokenize", {"prompt": text, "return_token_strs": True}).json()
    assert answer["tokens"] == byte_level.encode(text)
    assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
    assert answer["max_model_len"] == 16384
    assert answer["token_strs"][0] == byte_level.token_bytes(answer["tokens"][0]).decode()
    assert post(server, "/detokenize", {"tokens": answer["tokens"]}).json() == {"prompt": text}
    chat = post(server, "/tokenize", {"messages": CHAT, "model": MODEL}).json()
    usage = post(server, "/v1/chat/completions", {"messages": CHAT, "max_tokens": 1}).json()[
        "usage"
    ]
    assert chat["count"] == usage["prompt_tokens"]
    assert chat["token_strs"] is None
    for path, body, said in (
        ("/tokenize", {}, "give either prompt or messages"),
        ("/tokenize", {"prompt": "x", "messages": CHAT}, "give either prompt or messages"),
        ("/detokenize", {"tokens": [400]}, "not in the vocabulary"),
        ("/detokenize", {"tokens": ["a"]}, "tokens.0"),
    ):
        refused = post(server, path, body)
        assert refused.status_code == 400
        assert said in refused.json()["error"]["message"]
    assert post(server, "/detokenize", {"tokens": [1], "model": "gpt-5"}).status_code == 404
    [span] = [
        s
        for s in server.trace.spans("POST /detokenize")
        if s.attributes["http.response.status_code"] == 404
    ]
    assert span.attributes["error.type"] == "model_not_found"


def test_a_bias_reaches_the_sampler(server: Server, byte_level: Tokenizer) -> None:
    token_id = byte_level.encode("dog")[0]
    body = {"prompt": "The", "max_tokens": 5, "temperature": 0, "logit_bias": {str(token_id): 100}}
    text = post(server, "/v1/completions", body).json()["choices"][0]["text"]
    assert text == byte_level.decode([token_id] * 5)


def test_the_cache_is_reset_only_when_nobody_is_using_it(server: Server) -> None:
    body = {"prompt": "The lazy dog sleeps in the sun. " * 3, "max_tokens": 1}

    def cached() -> int:
        usage = post(server, "/v1/completions", body).json()["usage"]
        return int(usage["prompt_tokens_details"]["cached_tokens"])

    cached()
    assert cached() > 0
    thread = open_stream(server, "in-use", max_tokens=500)
    refused = post(server, "/reset_prefix_cache", {})
    assert (refused.status_code, "requests are open" in refused.text) == (409, True)
    thread.join()
    end_of(server, "in-use")
    done = post(server, "/flush_cache", {})
    assert done.json()["num_blocks"] > 0
    assert cached() == 0
    assert server.core_records(Kind.BLOCKS)[-1]
    resets = [r for r in server.core_records(Kind.BLOCKS) if r["code"] == Code.KV_RESET]
    assert len(resets[-1]["tail"]) == done.json()["num_blocks"]


def test_the_trace_level_can_be_changed_while_it_serves(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    recording = tracing.start(tmp_path / "run")
    server = start_server(recording, ServerSettings(dev=True))
    for level in ("requests", "steps"):
        changed = post(server, "/set_trace_level", {"level": level})
        assert changed.json() == {"level": level}
        post(server, "/v1/completions", {"prompt": "x", "max_tokens": 4, "ignore_eos": True})
    assert post(server, "/set_trace_level", {"level": "everything"}).status_code == 400
    server.stop()
    recording.close()
    run = tracing.open_run(tmp_path / "run")
    changes = run.sql(
        "SELECT role, a0, a1 FROM event JOIN proc USING (proc_id) WHERE code = 1003 ORDER BY ts_ns, role"
    ).rows
    assert {change[0] for change in changes} == {"api", "core"}
    assert [change[1:] for change in changes if change[0] == "core"] == [
        (Level.KERNELS, Level.REQUESTS),
        (Level.REQUESTS, Level.STEPS),
    ]
    assert run.sql("SELECT count(DISTINCT request_id), count(*) FROM step_request").rows == [(1, 4)]
    assert run.sql("SELECT count(*) FROM kernel").rows == [(0,)]


def test_the_models_own_defaults_are_used_unless_the_operator_or_the_request_says_otherwise(
    start_server: Callable[..., Server], chat_model: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "tuned"
    shutil.copytree(chat_model, folder)
    (folder / "generation_config.json").write_text(
        json.dumps(
            {"temperature": 0.25, "top_p": 0.5, "top_k": 7, "max_new_tokens": 6, "do_sample": True}
        )
    )
    assert sampling_defaults(folder) == {
        "temperature": 0.25,
        "top_p": 0.5,
        "top_k": 7,
        "max_tokens": 6,
    }
    own = start_server(model=str(folder))
    asked = {
        "unsaid": {},
        "said": {"temperature": 0.75, "max_tokens": 3, "top_p": 1.0},
        "null": {"temperature": None, "max_tokens": 100},
    }
    seen = {name: ask_for_params(own, name, body) for name, body in asked.items()}
    assert seen == {
        "unsaid": (250_000, 500_000, 7, 6),
        "said": (750_000, 1_000_000, 7, 3),
        "null": (250_000, 500_000, 7, 6),
    }
    plain = start_server(settings=ServerSettings(generation_config="vllm"), model=str(folder))
    assert ask_for_params(plain, "plain", {}) == (1_000_000, 1_000_000, None, 16)


def ask_for_params(server: Server, name: str, body: dict[str, Any]) -> tuple[int | None, ...]:
    """temperature, top_p, top_k and max_tokens as the engine got them."""
    headers = {"x-request-id": name}
    post(server, "/v1/completions", {"prompt": "x", "ignore_eos": True, **body}, **headers)
    [asked] = [
        r for r in server.trace.records(Kind.REQUEST) if f"cmpl-{name}".encode() in r["text"]
    ]
    return tuple(asked[f] for f in ("temperature_1e6", "top_p_1e6", "top_k", "max_tokens"))


def test_a_broken_generation_config_is_named(tmp_path: Path) -> None:
    assert sampling_defaults(tmp_path) == {}
    for content, said in (("{", "not valid JSON"), ('{"top_p": "high"}', "top_p is not a number")):
        (tmp_path / "generation_config.json").write_text(content)
        with pytest.raises(ModelError, match=said):
            sampling_defaults(tmp_path)


def test_the_description_names_every_path(server: Server) -> None:
    described = httpx.get(f"{server.url}/openapi.json", timeout=60).json()
    assert described["paths"].keys() >= {
        *("/v1/chat/completions", "/v1/completions", "/v1/models", "/health", "/metrics"),
        *("/tokenize", "/detokenize", "/abort_request", "/reset_prefix_cache", "/set_trace_level"),
    }
    chat = described["paths"]["/v1/chat/completions"]["post"]
    ref = chat["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    fields = described["components"]["schemas"][ref.rsplit("/", 1)[1]]["properties"]
    assert {
        "messages",
        "logit_bias",
        "max_completion_tokens",
        "cache_salt",
        "ignore_eos",
    } <= fields.keys()
