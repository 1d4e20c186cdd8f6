"""Prometheus metrics under the names that dashboards of vLLM and SGLang already ask for.

A name of theirs is used only where the number means the same; `METRICS.md` beside this file lists all of
them, with every difference. What neither has is called `cutaway:...`. Three sources, no polling:

    a step of the core     gauges of its state, tokens computed, preemptions         `stepped`
    a token                gap to the token before, time to the first                 `brought`
    an end                 latencies, lengths, the reason                             `ended`, `rejected`

Invariant: every HTTP request for tokens ends in exactly one `cutaway:requests_total{end=...}` per choice.

Source: vLLM 0.33 `vllm/v1/metrics/loggers.py`; SGLang 0.5.23 `observability/metrics_collector.py`.
"""

import time
from collections.abc import Sequence
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from engine.fates import FATES
from engine.generation import Choice, Delta, Generation
from engine.messages import End, Ready, StartPhase, Stats
from engine.server.buckets import (
    GAP_S,
    LATENCY_S,
    SGLANG_FIRST_TOKEN_S,
    SGLANG_GAP_S,
    SGLANG_LATENCY_S,
    TTFT_S,
    one_two_five,
)
from tracing.record import Code, Phase

Metric = TypeVar("Metric", Counter, Gauge, Histogram)
CONFIG_LABELS = ("block_size", "num_gpu_blocks", "cache", "policy", "dtype")
RATE_WINDOW_S = 1.0
"""Generation throughput is measured over at least so long."""


class Metrics:
    """The numbers of one API process."""

    def __init__(self, model_name: str) -> None:
        # One more series per counter, which no dashboard asks for.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types for it
        self._registry = CollectorRegistry()
        self._model_name = model_name
        self._block_size = 1
        self._usable_blocks = 1
        self._rate_start, self._rate_tokens = time.monotonic(), 0
        self._num_prompt_tokens = self._num_cached_tokens = 0
        self._make_vllm()
        self._make_sglang()
        self._ends = Counter(
            "cutaway:requests",
            "Requests by how they ended.",
            self._names("cutaway:", "end"),
            registry=self._registry,
        )
        self._refused = Counter(
            "cutaway:refused",
            "HTTP requests turned away at the gate.",
            self._names("cutaway:", "status"),
            registry=self._registry,
        )
        self._restarts = self._counter("cutaway:engine_restarts", "New starts of a dead core.")
        self._up = self._gauge("cutaway:engine_up", "1 while requests can be served.")
        self._start = Gauge(
            "cutaway:start_seconds",
            "Parts of the last start.",
            self._names("cutaway:", "phase"),
            registry=self._registry,
        )

    def render(self) -> bytes:
        """Prometheus' text format."""
        self._count_rate(0)
        return generate_latest(self._registry)

    # -- what happens ------------------------------------------------------------------------------

    def started(self, ready: Ready, phases: Sequence[StartPhase], attempt: int) -> None:
        """A core is ready; `attempt` 0: the first one."""
        self._block_size, self._usable_blocks = ready.block_size, ready.num_blocks - 1
        self._up.set(1)
        if attempt:
            self._restarts.inc()
        for phase in phases:
            self._start.labels(self._model_name, phase.name).set(
                (phase.end_ns - phase.start_ns) / 1e9
            )
        self._config.clear()
        known = ready.config | {"num_gpu_blocks": ready.num_blocks}
        values = [str(known[label]) for label in CONFIG_LABELS]
        self._config.labels(self._model_name, "0", *values).set(1)

    def lost(self) -> None:
        """The core died."""
        self._up.set(0)
        gone = (self._running, self._waiting, self._usage, self._s_running, self._s_waiting)
        for gauge in (*gone, self._s_usage, self._s_used, self._s_ratio):
            gauge.set(0)

    def stepped(self, before: Stats, now: Stats) -> None:
        """The core made a step, or its queue changed."""
        used = now.num_used_blocks / self._usable_blocks
        for gauges, value in (
            ((self._running, self._s_running), now.num_running),
            ((self._waiting, self._s_waiting), now.num_waiting),
            ((self._usage, self._s_usage), used),
            ((self._s_used,), now.num_used_blocks * self._block_size),
            ((self._s_ratio,), now.new_token_ratio or 0),
        ):
            for gauge in gauges:
                gauge.set(value)
        num_tokens = now.num_prefill_tokens + now.num_decode_tokens
        num_tokens -= before.num_prefill_tokens + before.num_decode_tokens
        if now.num_steps > before.num_steps:
            self._step_tokens.observe(num_tokens)
        preempted = now.num_preemptions - before.num_preemptions
        self._preemptions.inc(preempted)
        self._s_retracted.inc(preempted)

    def brought(self, delta: Delta) -> None:
        """Some tokens of a choice came."""
        choice, num_tokens = delta.choice, len(delta.token_ids)
        if not num_tokens:
            return
        self._count_rate(num_tokens)
        self._generated.inc(num_tokens)
        if delta.gap_ns is not None:
            gap_s = delta.gap_ns / 1e9 / num_tokens
            for _ in range(num_tokens):
                self._gap.observe(gap_s)
                self._s_gap.observe(gap_s)
        else:
            assert choice.first_token_ns is not None
            ttft_s = (choice.first_token_ns - delta.generation.arrival.arrival_ns) / 1e9
            self._ttft.observe(ttft_s)
            self._s_ttft.observe(ttft_s)
            self._prompt.inc(len(choice.request.prompt_token_ids))

    def ended(self, generation: Generation, choice: Choice) -> None:
        """A choice was delivered, or nobody was left to deliver it to."""
        assert choice.code is not None
        fate = FATES[choice.code]
        self._ends.labels(self._model_name, choice.code.name.lower()).inc()
        reason = "error" if choice.code is Code.LOST_ENGINE else fate.finish_reason
        self._finished.labels(self._model_name, "0", reason).inc()
        if choice.end is not None and choice.end.num_cached_tokens is not None:
            self._count_prefix(len(choice.request.prompt_token_ids), choice.end.num_cached_tokens)
        if fate.error is None:
            self._observe_answer(generation, choice)
        else:
            self._s_aborted.inc()

    def refused(self, status: int) -> None:
        """Somebody was turned away at the gate, before the request was looked at."""
        self._refused.labels(self._model_name, str(status)).inc()

    def rejected(self, code: Code) -> None:
        """A request was refused."""
        self._ends.labels(self._model_name, code.name.lower()).inc()

    # -- inside ------------------------------------------------------------------------------------

    def _observe_answer(self, generation: Generation, choice: Choice) -> None:
        end, prompt = choice.end, len(choice.request.prompt_token_ids)
        assert end is not None
        num_tokens, cached = len(choice.token_ids), end.num_cached_tokens or 0
        first_ns, last_ns = choice.first_token_ns, choice.last_token_ns
        assert first_ns is not None
        assert last_ns is not None
        queued_ns, started_ns = _first_start(end, Phase.QUEUE), _first_start(end, Phase.PREFILL)
        e2e_s = (choice.received_ns - generation.arrival.arrival_ns) / 1e9
        self._e2e.observe(e2e_s)
        self._s_e2e.observe(e2e_s)
        self._queue.observe((started_ns - queued_ns) / 1e9)
        self._s_queue.observe((started_ns - queued_ns) / 1e9)
        self._prefill.observe((first_ns - started_ns) / 1e9)
        self._decode.observe((last_ns - first_ns) / 1e9)
        self._inference.observe((last_ns - started_ns) / 1e9)
        if num_tokens > 1:
            self._tpot.observe((last_ns - first_ns) / 1e9 / (num_tokens - 1))
        self._prompt_length.observe(prompt)
        self._answer_length.observe(num_tokens)
        self._n.observe(generation.params.n)
        self._max_tokens.observe(choice.request.params.max_tokens or 0)
        self._s_requests.inc()
        self._s_prompt.inc(prompt)
        self._s_generated.inc(num_tokens)
        self._s_cached.inc(cached)

    def _count_prefix(self, num_prompt_tokens: int, num_cached_tokens: int) -> None:
        self._queries.inc(num_prompt_tokens)
        self._hits.inc(num_cached_tokens)
        self._prompt_cached.inc(num_cached_tokens)
        self._num_prompt_tokens += num_prompt_tokens
        self._num_cached_tokens += num_cached_tokens
        self._s_hit_rate.set(self._num_cached_tokens / self._num_prompt_tokens)

    def _count_rate(self, num_tokens: int) -> None:
        self._rate_tokens += num_tokens
        now = time.monotonic()
        if now - self._rate_start >= RATE_WINDOW_S:
            self._s_rate.set(self._rate_tokens / (now - self._rate_start))
            self._rate_start, self._rate_tokens = now, 0

    # -- names ---------------------------------------------------------------------------------------

    def _make_vllm(self) -> None:
        self._running = self._gauge("vllm:num_requests_running", "Requests in the batch.")
        self._waiting = self._gauge("vllm:num_requests_waiting", "Requests that wait.")
        self._usage = self._gauge("vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.")
        self._config = Gauge(
            "vllm:cache_config_info",
            "How the cache is set up.",
            self._names("vllm:", *CONFIG_LABELS),
            registry=self._registry,
        )
        self._queries = self._counter("vllm:prefix_cache_queries", "Prompt tokens looked up.")
        self._hits = self._counter("vllm:prefix_cache_hits", "Of these, found.")
        self._preemptions = self._counter("vllm:num_preemptions", "Requests that lost their KV.")
        self._prompt = self._counter("vllm:prompt_tokens", "Prompt tokens of started answers.")
        self._prompt_cached = self._counter("vllm:prompt_tokens_cached", "Of these, cached.")
        self._generated = self._counter("vllm:generation_tokens", "Tokens generated.")
        self._finished = Counter(
            "vllm:request_success",
            "Requests by reason.",
            self._names("vllm:", "finished_reason"),
            registry=self._registry,
        )
        histogram, lengths = self._histogram, one_two_five(131_072)
        self._step_tokens = histogram("vllm:iteration_tokens_total", "Of a step.", lengths)
        self._ttft = histogram("vllm:time_to_first_token_seconds", "From arrival.", TTFT_S)
        self._gap = histogram("vllm:inter_token_latency_seconds", "Between tokens.", GAP_S)
        self._tpot = histogram("vllm:request_time_per_output_token_seconds", "Mean.", GAP_S)
        self._e2e = histogram("vllm:e2e_request_latency_seconds", "Arrival to end.", LATENCY_S)
        self._queue = histogram("vllm:request_queue_time_seconds", "Waiting.", LATENCY_S)
        self._inference = histogram("vllm:request_inference_time_seconds", "Running.", LATENCY_S)
        self._prefill = histogram("vllm:request_prefill_time_seconds", "To token 1.", LATENCY_S)
        self._decode = histogram("vllm:request_decode_time_seconds", "After it.", LATENCY_S)
        self._prompt_length = histogram("vllm:request_prompt_tokens", "Of a request.", lengths)
        self._answer_length = histogram("vllm:request_generation_tokens", "Of one.", lengths)
        self._n = histogram("vllm:request_params_n", "Choices asked for.", [1, 2, 5, 10, 20])
        self._max_tokens = histogram("vllm:request_params_max_tokens", "Clipped.", lengths)

    def _make_sglang(self) -> None:
        self._s_running = self._gauge("sglang:num_running_reqs", "Requests in the batch.")
        self._s_waiting = self._gauge("sglang:num_queue_reqs", "Requests that wait.")
        self._s_usage = self._gauge("sglang:token_usage", "Share of KV in use, 0 to 1.")
        self._s_used = self._gauge("sglang:num_used_tokens", "Room of the KV blocks in use.")
        self._s_ratio = self._gauge("sglang:new_token_ratio", "Share of output set aside.")
        self._s_hit_rate = self._gauge("sglang:cache_hit_rate", "Of all prompt tokens so far.")
        self._s_rate = self._gauge("sglang:gen_throughput", "Tokens per second.")
        self._s_prompt = self._counter("sglang:prompt_tokens", "Of finished requests.")
        self._s_generated = self._counter("sglang:generation_tokens", "Of finished requests.")
        cached = Counter(
            "sglang:cached_tokens",
            "Of theirs, cached.",
            self._names("sglang:", "cache_source"),
            registry=self._registry,
        )
        self._s_cached = cached.labels(self._model_name, "device")
        self._s_requests = self._counter("sglang:num_requests", "Finished requests.")
        self._s_aborted = self._counter("sglang:num_aborted_requests", "Aborted requests.")
        self._s_retracted = self._counter("sglang:num_retracted_requests", "Retractions.")
        histogram = self._histogram
        first, gap, latency = SGLANG_FIRST_TOKEN_S, SGLANG_GAP_S, SGLANG_LATENCY_S
        self._s_ttft = histogram("sglang:time_to_first_token_seconds", "From arrival.", first)
        self._s_gap = histogram("sglang:inter_token_latency_seconds", "Between tokens.", gap)
        self._s_e2e = histogram("sglang:e2e_request_latency_seconds", "All of it.", latency)
        self._s_queue = histogram("sglang:queue_time_seconds", "Waiting.", latency)

    def _gauge(self, name: str, text: str) -> Gauge:
        return self._only(name, Gauge(name, text, self._names(name), registry=self._registry))

    def _counter(self, name: str, text: str) -> Counter:
        return self._only(name, Counter(name, text, self._names(name), registry=self._registry))

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        names = self._names(name)
        made = Histogram(name, text, names, registry=self._registry, buckets=buckets)
        return self._only(name, made)

    def _names(self, name: str, *more: str) -> list[str]:
        engine = ["engine"] if name.startswith("vllm:") else []
        return ["model_name", *engine, *more]

    def _only(self, name: str, metric: Metric) -> Metric:
        """The one series of a metric without labels of its own."""
        return metric.labels(*self._own(name))

    def _own(self, name: str) -> list[str]:
        """Values of the labels that every metric has."""
        return [self._model_name, "0"] if name.startswith("vllm:") else [self._model_name]


def _first_start(end: End, phase: Phase) -> int:
    return next(start_ns for kind, start_ns, _ in end.phases if kind == phase)
