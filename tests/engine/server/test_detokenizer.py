"""Text made in a process of its own: the same text, a visible hop, and a death that is survived."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

import tracing
from engine.messages import CoreOutput, OpenText, Stats, StepOutputs
from engine.request import SamplingParams
from engine.server import restarts
from engine.server.detokenizer_process import Texts
from engine.server.settings import ServerSettings
from engine.text.tokenizer import Tokenizer
from tests.engine.server.conftest import MODEL, Server, assert_everything_is_free, wait_for

APART = ServerSettings(detokenizer="process")
STATS = Stats(0, 0, 0, 0, None, 0, 0, 0, 0)


@pytest.fixture(scope="module")
def apart(start_server: Callable[..., Server]) -> Server:
    """A server whose text is made in a process of its own."""
    return start_server(settings=APART)


def requests() -> list[dict[str, Any]]:
    prompts = ["The quick", "Emoji: 😀", "大模型", "What is", "the dog", "x"]
    asked = [{"prompt": p, "temperature": 0, "max_tokens": 40} for p in prompts]
    asked += [{**a, "stop": ["e", "~"], "extra_body": {"min_tokens": 3}} for a in asked]
    asked += [{"prompt": p, "temperature": 1, "seed": 3, "n": 2, "logprobs": 1} for p in prompts]
    return [a | {"model": MODEL} for a in asked]


def test_the_same_text_as_without_it(server: Server, apart: Server) -> None:
    def ask(at: Server) -> list[Any]:
        complete = at.client().completions.create
        with ThreadPoolExecutor(6) as pool:
            answers = list(pool.map(lambda a: complete(**a), requests()))
        return [
            (
                c.text,
                c.finish_reason,
                c.logprobs and c.logprobs.tokens,
                a.usage.completion_tokens,
            )
            for a in answers
            for c in a.choices
        ]

    assert ask(apart) == ask(server)
    for body in requests()[:8]:
        chunks = apart.client().completions.create(stream=True, **body)
        whole = server.client().completions.create(**body)
        assert "".join(c.choices[0].text for c in chunks) == whole.choices[0].text
    assert_everything_is_free(apart)


def test_the_hop_is_a_phase_of_each_request(
    start_server: Callable[..., Server], tmp_path: Path
) -> None:
    recording = tracing.start(tmp_path / "run")
    server = start_server(recording, APART)
    for body in requests()[:3]:
        server.client().completions.create(**body)
    server.stop()
    recording.close()
    run = tracing.open_run(tmp_path / "run")
    lives = run.sql(
        "SELECT list(phase ORDER BY start_ns), sum(end_ns - start_ns) FROM request_phase GROUP BY request_id"
    ).rows
    assert len(lives) == 3
    for phases, _ in lives:
        assert phases[-4:] == ["decode", "detokenise", "to_api", "deliver"]
    tiled = run.sql(
        "SELECT e.end_ns - r.arrival_ns - (SELECT sum(p.end_ns - p.start_ns) FROM request_phase p WHERE"
        " p.request_id = r.request_id) FROM request r JOIN request_end e USING (request_id)"
    ).rows
    assert tiled == [(0,)] * 3
    assert run.sql("SELECT count(*) FROM span WHERE name = 'detokenise'").rows == [(3,)]


def test_its_death_is_an_engine_lost_and_replaced(
    start_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restarts, "FIRST_DELAY_S", 0.1)
    others = detokenizers()
    server = start_server(settings=APART)
    [text_pid] = detokenizers() - others
    body = {
        "model": MODEL,
        "prompt": "The",
        "max_tokens": 16000,
        "extra_body": {"ignore_eos": True},
    }
    stream = iter(server.client().completions.create(stream=True, **body))
    next(stream)
    assert text_pid is not None
    os.kill(text_pid, signal.SIGKILL)
    with pytest.raises(openai.APIError, match="engine detokenizer died"):
        list(stream)
    wait_for(lambda: server.num_starts == 2, "a new engine")
    assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200
    assert server.client().completions.create(model=MODEL, prompt="x", max_tokens=1).usage


def detokenizers() -> set[int | None]:
    """Process ids of the detokenisers of all servers in this process."""
    running = multiprocessing.active_children()
    return {child.pid for child in running if child.name == "cutaway-detokenizer"}


def test_outputs_wait_for_what_is_said_about_their_request(byte_level: Tokenizer) -> None:
    texts = Texts(byte_level)
    dog, sun = (byte_level.encode(word) for word in (" dog", " sun"))
    params = SamplingParams()

    def step(request_id: int, token_ids: list[int]) -> StepOutputs:
        return StepOutputs([CoreOutput(request_id, 0, 0, tuple(token_ids))], STATS)

    assert texts.open(OpenText(1, [5], params)) == []
    [now] = texts.feed(step(1, dog))
    assert now.pieces[0].text == " dog"
    assert texts.feed(step(2, sun)) == [], "nothing is known of request 2 yet"
    assert texts.feed(step(1, sun)) == [], "and nobody overtakes"
    first, second = texts.open(OpenText(2, [5], params))
    assert [(o.outputs[0].request_id, o.pieces[0].text) for o in (first, second)] == [
        (2, " sun"),
        (1, " sun"),
    ]
