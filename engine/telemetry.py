"""The story of a request: OpenTelemetry spans for the world, compact records for the workbench.

    POST /v1/chat/completions      SERVER; continues the caller's traceparent (server only)
    └─ chat smollm2-135m           the GenAI span of one prompt
       ├─ receive  tokenise  to_core  queue  prefill  decode  to_api  deliver     phases, explicit times
       └─ ...                      again for each further choice

Phases tile a request's life without gap: the front end knows its own ends of it, the core reports its part
in `End`. They become spans when the request ends, so nothing is paid while it runs.

Invariant: each request has exactly one REQUEST and one REQUEST_END record, refused ones included. Spans carry
wall time, made from the recorder's monotonic clock by one offset, so both stories agree to the nanosecond.

Source: OpenTelemetry GenAI semantic conventions (development), W3C Trace Context.
"""

import time
from collections.abc import Mapping, Sequence

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    get_tracer_provider,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from engine.fates import FATES
from engine.generation import Arrival, Choice, Generation
from engine.messages import StartPhase
from engine.otel_metrics import GenAiMetrics
from engine.request_facts import (
    PhaseTimes,
    or_null,
    request_attributes,
    response_attributes,
    sampling_fields,
    span_fields,
    tile_phases,
)
from tracing.record import NO_RECORDER, NULL, Code, Phase, Trace


class Telemetry:
    """Writes down what happens to requests. Without a trace only spans are made, by the global provider.

    OpenTelemetry's global provider does nothing until an application sets it up.
    """

    def __init__(
        self, trace: Trace | None, model_name: str, meter_provider: MeterProvider | None = None
    ) -> None:
        provider = get_tracer_provider() if trace is None else trace.tracer_provider
        self.tracer = provider.get_tracer("cutaway")
        self.recorder = NO_RECORDER if trace is None else trace.recorder("api")
        self.clock = self.recorder.clock
        own_offset_ns = time.time_ns() - self.clock()
        self._epoch_offset_ns = own_offset_ns if trace is None else trace.epoch_offset_ns
        self._model_name = model_name
        self._metrics = GenAiMetrics(model_name, meter_provider)

    # -- the HTTP request ------------------------------------------------------------------------

    def begin_call(
        self,
        method: str,
        route: str,
        headers: Mapping[str, str],
        address: tuple[str, int] | None,
    ) -> Span:
        """The SERVER span of an HTTP request; its parent is the caller's span, if the headers name one."""
        attributes: dict[str, AttributeValue] = {
            "http.request.method": method,
            "http.route": route,
            "url.path": route,
            "url.scheme": "http",
        }
        if address is not None:
            attributes |= {"server.address": address[0], "server.port": address[1]}
        return self.tracer.start_span(
            f"{method} {route}",
            context=TraceContextTextMapPropagator().extract(headers),
            kind=SpanKind.SERVER,
            attributes=attributes,
            start_time=self._epoch(self.clock()),
        )

    def note_disconnect(self, span: Span) -> None:
        """The client of an HTTP request has hung up: from here on its requests are being ended."""
        span.add_event("client disconnected", timestamp=self._epoch(self.clock()))

    def end_call(self, span: Span, http_status: int, error_type: str | None = None) -> None:
        """The answer was sent, or given up."""
        span.set_attribute("http.response.status_code", http_status)
        if error_type is not None:
            span.set_attribute("error.type", error_type)
        if http_status >= 500:  # OpenTelemetry: a client's error is not the server's
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=self._epoch(self.clock()))
        self.recorder.flush()

    # -- a prompt ----------------------------------------------------------------------------------

    def begin(self, generation: Generation) -> None:
        """A prompt was accepted: open its span, and write down its requests."""
        arrival = generation.arrival
        generation.span = self._start_span(arrival, generation.request_id)
        generation.span.set_attributes(request_attributes(generation))
        for choice in generation.choices:
            request = choice.request
            salt = request.cache_salt
            parent = NULL if choice.index == 0 else generation.request_id
            # A salt is a secret: what is shared can be seen from equal names, the name says nothing.
            name = "" if salt is None else f"{self.recorder.mask(salt.encode()):016x}"
            self.recorder.request(
                (
                    *(request.request_id, parent),
                    *span_fields(generation.span, arrival.server_span),
                    *(arrival.arrival_ns, arrival.stream, len(request.prompt_token_ids)),
                    or_null(request.params.max_tokens),
                    request.priority,
                    self.recorder.intern("namespace", name) if name else 0,
                    *sampling_fields(request.params),
                ),
                external_id=arrival.external_id,
                operation=arrival.operation,
            )
            self.recorder.prompt(request.request_id, request.prompt_token_ids)
        self.recorder.flush()

    def end_choice(self, generation: Generation, choice: Choice, http_status: int | None) -> None:
        """A choice was delivered: write down its end and its phases."""
        assert choice.code is not None
        now, end = self.clock(), choice.end
        error = None if FATES[choice.code].error is None else choice.code.name.lower()
        self._metrics.observe(generation, choice, now, error)
        phases = list(tile_phases(generation.arrival, choice, now))
        for phase in phases:
            self.recorder.phase(choice.request.request_id, *phase)
        if generation.span.is_recording():
            self._make_phase_spans(generation, choice.request.request_id, phases)
        self.recorder.request_end(
            (
                *(choice.request.request_id, now, choice.code),
                *(or_null(http_status), len(choice.token_ids)),
                NULL if end is None else or_null(end.num_cached_tokens),
                0 if end is None else end.num_recomputed_tokens,
                0 if end is None else end.num_preemptions,
                *(or_null(choice.first_token_ns), or_null(choice.last_token_ns)),
                or_null(choice.first_byte_ns),
                *(choice.detokenise_ns, choice.a0),
            )
        )
        self.recorder.flush()

    def end(self, generation: Generation) -> None:
        """All choices were delivered: close the prompt's span."""
        span = generation.span
        if span.is_recording():
            span.set_attributes(response_attributes(generation, self._model_name))
            self._set_status(span, [choice.code for choice in generation.choices])
        span.end(end_time=self._epoch(self.clock()))
        self.recorder.flush()

    def reject(
        self, arrival: Arrival, request_id: int, code: Code, a0: int, http_status: int | None
    ) -> None:
        """A request was refused before it became a generation."""
        now = self.clock()
        span = self._start_span(arrival, request_id)
        span.set_attribute("cutaway.end_reason", code.name.lower())
        self._set_status(span, [code])
        num_prompt_tokens = a0 if code is Code.REJECT_TOO_LONG else NULL
        self.recorder.request(
            (
                *(request_id, NULL, *span_fields(span, arrival.server_span)),
                *(arrival.arrival_ns, arrival.stream, num_prompt_tokens, NULL, 0, 0),
                *(NULL, NULL, NULL, NULL),
            ),
            external_id=arrival.external_id,
            operation=arrival.operation,
        )
        self.recorder.phase(request_id, Phase.RECEIVE, arrival.arrival_ns, now, NULL, NULL)
        status = or_null(http_status)
        self.recorder.request_end(
            (*(request_id, now, code, status, 0, NULL, 0, 0), *(NULL, NULL, NULL, 0, a0))
        )
        span.end(end_time=self._epoch(now))
        self.recorder.flush()

    # -- the engine --------------------------------------------------------------------------------

    def started(
        self, what: str, phases: Sequence[StartPhase], engine_id: int | None = None
    ) -> None:
        """Something is ready: a span for its start, and under it one for each part."""
        attributes: dict[str, AttributeValue] = {}
        if engine_id is not None:
            attributes["cutaway.engine"] = engine_id
        first, last = min(p.start_ns for p in phases), max(p.end_ns for p in phases)
        root = self.tracer.start_span(
            f"start {what}", attributes=attributes, start_time=self._epoch(first)
        )
        context = set_span_in_context(root)
        for phase in phases:
            self.tracer.start_span(
                phase.name,
                context=context,
                attributes=attributes,
                start_time=self._epoch(phase.start_ns),
            ).end(end_time=self._epoch(phase.end_ns))
        root.end(end_time=self._epoch(last))
        self.recorder.flush()

    # -- inside ------------------------------------------------------------------------------------

    @staticmethod
    def _set_status(span: Span, codes: Sequence[Code | None]) -> None:
        """A span's status is its worst end's."""
        for code in codes:
            error = None if code is None else FATES[code].error
            if code is not None and error is not None:
                span.set_attribute("error.type", code.name.lower())
                span.set_status(Status(StatusCode.ERROR, error))
                return
        span.set_status(Status(StatusCode.OK))

    def _epoch(self, clock_ns: int) -> int:
        return clock_ns + self._epoch_offset_ns

    def _start_span(self, arrival: Arrival, request_id: int) -> Span:
        """In a server under the HTTP span; in process under whatever span the application has open."""
        server_span = arrival.server_span
        return self.tracer.start_span(
            f"{arrival.operation} {self._model_name}",
            context=None if server_span is None else set_span_in_context(server_span),
            kind=SpanKind.INTERNAL,
            attributes={
                "gen_ai.operation.name": arrival.operation,
                "gen_ai.provider.name": "cutaway",
                "gen_ai.request.model": self._model_name,
                "gen_ai.request.stream": arrival.stream,
                "gen_ai.output.type": "text",
                "cutaway.request": request_id,
            },
            start_time=self._epoch(arrival.arrival_ns),
        )

    def _make_phase_spans(
        self, generation: Generation, request_id: int, phases: list[PhaseTimes]
    ) -> None:
        context, engine_id = set_span_in_context(generation.span), generation.engine_id
        for phase, start_ns, end_ns, first_step, last_step in phases:
            attributes: dict[str, AttributeValue] = {"cutaway.request": request_id}
            if first_step != NULL:
                if engine_id is not None:
                    attributes["cutaway.engine"] = engine_id
                attributes |= {"cutaway.first_step": first_step, "cutaway.last_step": last_step}
            self.tracer.start_span(
                Phase(phase).name.lower(),
                context=context,
                attributes=attributes,
                start_time=self._epoch(start_ns),
            ).end(end_time=self._epoch(end_ns))
