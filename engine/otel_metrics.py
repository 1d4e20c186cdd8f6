"""GenAI metrics through OpenTelemetry's API: four histograms, as its conventions name them.

Without an SDK these calls do nothing. With one (`opentelemetry-instrument cutaway serve`, or an application
that sets a MeterProvider before it makes an `LLM`) they reach whatever collector that one is set up for.
Prometheus' own names, for dashboards of vLLM and SGLang, are another file: `engine.server.metrics`.

Source: OpenTelemetry GenAI semantic conventions (development): names, units, attributes, bucket bounds.
"""

from opentelemetry.metrics import Histogram, MeterProvider, get_meter_provider
from opentelemetry.util.types import AttributeValue

from engine.generation import Choice, Generation

DURATION_BOUNDS = [0.01 * 2**i for i in range(14)]
FIRST_TOKEN_BOUNDS = [
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0),
]
PER_TOKEN_BOUNDS = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5]
USAGE_BOUNDS = [float(4**i) for i in range(14)]


class GenAiMetrics:
    """The histograms of one front end; called when a request has ended."""

    def __init__(self, model_name: str, provider: MeterProvider | None = None) -> None:
        meter = (provider or get_meter_provider()).get_meter("cutaway")
        self._model_name = model_name

        def seconds(name: str, text: str, bounds: list[float]) -> Histogram:
            return meter.create_histogram(
                name, unit="s", description=text, explicit_bucket_boundaries_advisory=bounds
            )

        self._duration = seconds(
            "gen_ai.server.request.duration", "From arrival to the last byte.", DURATION_BOUNDS
        )
        self._first_token = seconds(
            "gen_ai.server.time_to_first_token", "From arrival to it.", FIRST_TOKEN_BOUNDS
        )
        self._per_token = seconds(
            "gen_ai.server.time_per_output_token", "Mean, after the first.", PER_TOKEN_BOUNDS
        )
        self._usage = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Tokens in and out.",
            explicit_bucket_boundaries_advisory=USAGE_BOUNDS,
        )

    def observe(
        self, generation: Generation, choice: Choice, now_ns: int, error: str | None
    ) -> None:
        """One choice has ended; `error`: OpenTelemetry's error.type, None for a success."""
        arrival = generation.arrival
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": arrival.operation,
            "gen_ai.provider.name": "cutaway",
            "gen_ai.request.model": self._model_name,
            "gen_ai.response.model": self._model_name,
        }
        num_tokens = len(choice.token_ids)
        first_ns, last_ns = choice.first_token_ns, choice.last_token_ns
        if error is None and first_ns is not None and last_ns is not None:
            self._first_token.record((first_ns - arrival.arrival_ns) / 1e9, attributes)
            if num_tokens > 1:
                per_token_ns = (last_ns - first_ns) / (num_tokens - 1)
                self._per_token.record(per_token_ns / 1e9, attributes)
        usage = {"input": len(choice.request.prompt_token_ids), "output": num_tokens}
        for kind, count in usage.items():
            if kind == "output" or choice.index == 0:  # the prompt of n choices was read once
                self._usage.record(count, attributes | {"gen_ai.token.type": kind})
        if error is not None:
            attributes["error.type"] = error
        self._duration.record((now_ns - arrival.arrival_ns) / 1e9, attributes)
