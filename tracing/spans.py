"""Request-level spans: the OpenTelemetry SDK as it is, with a processor that writes them to the spool.

Requests are few, so each gets real SDK spans (25-40 us apiece); everything below them is integers. Both reach
the recorder the same way, through the `api` process's spool.

Two clocks meet here. The engine's records are monotonic time, shifted to the Unix epoch by the fold with the
run's one offset; the SDK's spans carry epoch time already and are stored as they are. They lie on one axis if
a span that stands for engine times (queue, prefill, ...) is started and ended with explicit times made by
`Recording.wall_ns`; spans that let the SDK read the wall clock are off by what NTP has slewed since the run
began, usually microseconds.

Invariant: a span is written at its start, so that a kill leaves something to close, and again at its end.
Source: OpenTelemetry Python SDK 1.45 `SpanProcessor`; kinds and status as numbered in OTLP 1.x.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanContext

from tracing.record import NULL, Recorder

REQUEST_ATTRIBUTE = "cutaway.request"
"""Attribute that says which request a span belongs to."""


class SpoolSpanProcessor(SpanProcessor):
    """Writes each span as `Kind.SPAN` to a recorder. Belongs to the thread that the recorder belongs to."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Called by the SDK when a span starts."""
        self._write(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Called by the SDK when a span ends; the end of a whole local trace is handed on at once."""
        self._write(span)
        if span.parent is None or span.parent.is_remote:
            self._recorder.flush()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Hand what has gathered to the spool."""
        self._recorder.flush()
        return True

    def _write(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        assert context is not None
        attributes = dict(span.attributes or {})
        request_id = attributes.get(REQUEST_ATTRIBUTE)
        parent = span.parent.span_id if span.parent is not None else None
        fields = (
            *_ids(context),
            NULL if parent is None else _signed(parent),
            span.kind.value + 1,  # the SDK counts from 0, OTLP from 1
            *(NULL if ns is None else ns for ns in (span.start_time, span.end_time)),
            span.status.status_code.value,
            request_id if isinstance(request_id, int) else NULL,
        )
        self._recorder.span(fields, _body(span, attributes))


def make_provider(recorder: Recorder) -> TracerProvider:
    """A provider whose spans go to this recorder, all of them: the run is what one wants to see whole."""
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        resource=Resource.create({"service.name": "cutaway"}),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(SpoolSpanProcessor(recorder))
    return provider


def _body(span: ReadableSpan, attributes: Mapping[str, Any]) -> dict[str, Any]:
    scope = span.instrumentation_scope
    return {
        "name": span.name,
        "attributes": _plain(attributes),
        "events": [
            {"name": e.name, "ts_ns": e.timestamp, "attributes": _plain(e.attributes)}
            for e in span.events
        ],
        "links": [
            dict(
                zip(("trace_hi", "trace_lo", "span_id"), _unsigned_ids(link.context), strict=True),
                attributes=_plain(link.attributes),
            )
            for link in span.links
        ],
        "resource": _plain(span.resource.attributes),
        "scope": scope.name if scope is not None else None,
        "status_text": span.status.description,
    }


def _plain(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Attributes for JSON; bytes, which it has no word for, become hexadecimal."""
    return {key: _plain_value(value) for key, value in (attributes or {}).items()}


def _plain_value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain_value(item) for item in value]
    return value


def _unsigned_ids(context: SpanContext) -> tuple[int, int, int]:
    return context.trace_id >> 64, context.trace_id & (2**64 - 1), context.span_id


def _ids(context: SpanContext) -> tuple[int, int, int]:
    hi, lo, span_id = _unsigned_ids(context)
    return _signed(hi), _signed(lo), _signed(span_id)


def _signed(word: int) -> int:
    """An unsigned 64-bit id as the signed number of the same bits."""
    return word - 2**64 if word >= 2**63 else word
