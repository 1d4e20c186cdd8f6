"""Numbers for Prometheus and OpenTelemetry: the names of the table, and values that the answers bear out."""

import json
import re
from importlib.resources import files
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from engine.fates import FATES
from engine.frontend import Frontend
from engine.generation import Arrival
from engine.messages import CoreOutput, End
from engine.request import SamplingParams
from engine.telemetry import Telemetry
from engine.text.tokenizer import Tokenizer
from tests.engine.server.conftest import MODEL, Server, end_of, wait_for
from tracing.record import Code, Phase

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(server: Server) -> Values:
    answer = httpx.get(f"{server.url}/metrics", timeout=60)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.text)
    own = ("model_name", "engine")
    return {
        (s.name, frozenset((k, v) for k, v in s.labels.items() if k not in own)): s.value
        for family in families
        for s in family.samples
    }


def test_every_metric_is_in_the_table_and_every_dashboard_panel_has_its_metric(
    server: Server,
) -> None:
    server.client().completions.create(model=MODEL, prompt="x", max_tokens=2)
    text = httpx.get(f"{server.url}/metrics", timeout=60).text
    given = {family.name: family.type for family in text_string_to_metric_families(text)}
    folder = files("engine.server")
    table = re.findall(
        r"^\| `([a-z0-9:_]+)` \| (\w+) \|", folder.joinpath("METRICS.md").read_text(), re.M
    )
    assert dict(table) == given
    assert all('model_name="tiny-chat"' in line for line in text.splitlines() if line[0] != "#")
    dashboard = json.loads(folder.joinpath("grafana.json").read_text())
    asked = {
        name
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
        for name in re.findall(r"(?:vllm|sglang|cutaway):\w+", target["expr"])
    }
    samples = {name for name, _ in scrape(server)}
    assert asked <= samples
    assert len(asked) > 12


def test_numbers_add_up_to_what_was_answered(server: Server) -> None:
    before = scrape(server)
    ask = server.client().completions.create
    body: dict[str, Any] = {
        "model": MODEL,
        "prompt": "The quick brown",
        "extra_body": {"ignore_eos": True},
    }
    usages = [ask(max_tokens=9, **body).usage for _ in range(2)]
    ask(max_tokens=4, n=2, **body)
    with pytest.raises(Exception, match="prompt"):
        ask(model=MODEL, prompt="")
    with ask(
        model=MODEL, prompt="x", stream=True, max_tokens=9000, extra_body=body["extra_body"]
    ) as gone:
        first = next(iter(gone))
    end_of(server, first.id)
    ends = ("cutaway:requests_total", frozenset({("end", "abort_disconnect")}))
    wait_for(lambda: scrape(server).get(ends, 0) - before.get(ends, 0), "the end in the metrics")
    now = scrape(server)

    def grown(name: str, **labels: str) -> float:
        key = (name, frozenset(labels.items()))
        return now.get(key, 0) - before.get(key, 0)

    num_prompt = usages[0].prompt_tokens
    assert grown("cutaway:requests_total", end="end_length") == 4
    assert grown("cutaway:requests_total", end="reject_bad") == 1
    assert grown("vllm:request_success_total", finished_reason="length") == 4
    assert grown("vllm:request_success_total", finished_reason="abort") == 1
    assert grown("vllm:e2e_request_latency_seconds_count") == 4
    assert grown("vllm:request_queue_time_seconds_count") == 4
    assert grown("vllm:request_generation_tokens_sum") == 9 + 9 + 4 + 4
    assert grown("vllm:request_prompt_tokens_sum") == 4 * num_prompt
    assert grown("vllm:time_to_first_token_seconds_count") == 5
    gaps = grown("vllm:inter_token_latency_seconds_count")
    assert gaps == grown("vllm:generation_tokens_total") - 5
    assert gaps == grown("sglang:inter_token_latency_seconds_count")
    assert grown("vllm:request_params_n_sum") == 1 + 1 + 2 + 2
    assert grown("sglang:num_requests_total") == 4
    assert grown("sglang:num_aborted_requests_total") == 1
    assert grown("sglang:generation_tokens_total") == 26
    assert grown("vllm:iteration_tokens_total_count") >= 9 + 9 + 4
    computed = grown("vllm:iteration_tokens_total_sum")
    assert computed >= grown("vllm:generation_tokens_total")
    assert now["cutaway:engine_up", frozenset()] == 1
    phases = {dict(labels)["phase"] for name, labels in now if name == "cutaway:start_seconds"}
    assert phases == {"start process", "plan memory", "load weights", "allocate KV pool"}


def test_each_way_to_end_has_its_own_span_status_and_metric() -> None:
    """The table covers every end that the trace knows and this version can reach, each told apart."""
    ends = {code for code in Code if 800 < code < 900}
    later = {Code.ABORT_GRAMMAR, Code.REJECT_NEVER_FITS, Code.LOST_RANK, Code.INTERRUPTED}
    assert FATES.keys() == ends - later
    errors = [fate.error for fate in FATES.values() if fate.error]
    assert len(errors) == len(set(errors))
    assert {fate.finish_reason for fate in FATES.values() if fate.error} == {"abort"}


def test_genai_metrics_reach_an_sdk(byte_level: Tokenizer) -> None:
    reader = InMemoryMetricReader()
    telemetry = Telemetry(None, "toy", MeterProvider([reader]))
    frontend = Frontend(byte_level, 64, telemetry)
    arrival = Arrival(arrival_ns=telemetry.clock(), operation="chat")
    generation = frontend.submit([5, 6, 7], SamplingParams(n=2), arrival)
    first_ns, last_ns = arrival.arrival_ns + 10**9, arrival.arrival_ns + 4 * 10**9
    end = End(Code.END_LENGTH, 4, last_ns, 1, 0, 0, 0, ((Phase.TO_CORE, first_ns, -1),))
    for choice, its_end in zip(generation.choices, (end, None), strict=True):
        request_id = choice.request.request_id
        frontend.process([CoreOutput(request_id, 0, first_ns, (1,))])
        frontend.process([CoreOutput(request_id, 1, last_ns, (2, 3, 4), (), its_end)])
    frontend.give_up(Code.LOST_ENGINE)
    for choice in generation.choices:
        frontend.deliver(generation, choice, None)
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        (
            metric.name,
            *(str(point.attributes.get(a)) for a in ("gen_ai.token.type", "error.type")),
        ): point
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
    }
    usage = "gen_ai.client.token.usage"
    assert points[usage, "input", "None"].sum == 3, "the prompt of two choices was read once"
    assert points[usage, "output", "None"].sum == 8
    assert points["gen_ai.server.time_to_first_token", "None", "None"].sum == 1.0
    assert points["gen_ai.server.time_per_output_token", "None", "None"].sum == 1.0
    assert points["gen_ai.server.request.duration", "None", "lost_engine"].count == 1
    [point] = [
        p for key, p in points.items() if key == ("gen_ai.server.request.duration", "None", "None")
    ]
    assert point.attributes["gen_ai.operation.name"] == "chat"
    assert point.explicit_bounds[0] == 0.01
