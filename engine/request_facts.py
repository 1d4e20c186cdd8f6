"""Facts of a request's life, computed when they are known: phases, span attributes, record fields.

Pure functions from a generation to what `telemetry.py` writes. Phases tile [arrival, delivered) without gap:

    receive | tokenise | to_core | queue | prefill | decode | (preempted | prefill ...)* | to_api | deliver
    front end ........ | the core's own account, in `End` .............................. | front end

A detokeniser in a process of its own adds the phase `detokenise` before `to_api`: the hop through it.

Source: OpenTelemetry GenAI semantic conventions (development); fields of `tracing.layout.FIELDS`.
"""

from collections.abc import Iterator
from itertools import pairwise

from opentelemetry.trace import Span
from opentelemetry.util.types import AttributeValue

from engine.generation import Arrival, Choice, Generation
from engine.request import SamplingParams
from tracing.record import NULL, Phase

PhaseTimes = tuple[int, int, int, int, int]
"""(phase, start_ns, end_ns, first step, last step); steps are NULL outside the core."""


def tile_phases(arrival: Arrival, choice: Choice, delivered_ns: int) -> Iterator[PhaseTimes]:
    """The phases of a choice's life: they tile [arrival, delivered); empty ones are left out."""
    marks = [
        (Phase.RECEIVE, arrival.arrival_ns, NULL, NULL),
        (Phase.TOKENISE, arrival.tokenise_ns or arrival.arrival_ns, NULL, NULL),
        *_core_marks(choice),
        (Phase.DELIVER, choice.received_ns, NULL, NULL),
        (Phase.DELIVER, delivered_ns, NULL, NULL),
    ]
    start_ns = arrival.arrival_ns
    for (phase, _, first, last), (_, next_ns, _, _) in pairwise(marks):
        # One host has one clock, so this only ever moves a mark that was taken out of order.
        end_ns = min(max(next_ns, start_ns), delivered_ns)
        if end_ns > start_ns:
            yield phase, start_ns, end_ns, first, last
        start_ns = end_ns


def _core_marks(choice: Choice) -> Iterator[tuple[int, int, int, int]]:
    """(phase, start, first step, last step) from to_core to to_api.

    A core that was lost took its part of the story along: what is left is when tokens came.
    """
    end = choice.end
    if end is None:
        yield Phase.QUEUE, choice.request.sent_ns, NULL, NULL
        if choice.first_token_ns is not None:
            yield Phase.DECODE, choice.first_token_ns, NULL, NULL
        return
    starts = [step for _, _, step in end.phases]
    for i, (phase, start_ns, first_step) in enumerate(end.phases):
        if first_step < 0:
            yield phase, start_ns, NULL, NULL
        else:
            last_step = starts[i + 1] - 1 if i + 1 < len(starts) else end.last_step
            yield phase, start_ns, first_step, max(first_step, last_step)
    if choice.detokenised_ns is not None:
        yield Phase.DETOKENISE, end.end_ns, NULL, NULL
        yield Phase.TO_API, choice.detokenised_ns, NULL, NULL
    else:
        yield Phase.TO_API, end.end_ns, NULL, NULL


def request_attributes(generation: Generation) -> dict[str, AttributeValue]:
    """Attributes of what was asked, after clipping; what has no effect is left out."""
    params = generation.params
    max_tokens = generation.choices[0].request.params.max_tokens
    given: dict[str, AttributeValue | None] = {
        "gen_ai.request.max_tokens": max_tokens,
        "gen_ai.request.temperature": params.temperature,
        "gen_ai.request.top_p": params.top_p,
        "gen_ai.request.top_k": params.top_k or None,
        "gen_ai.request.seed": params.seed,
        "gen_ai.request.stop_sequences": params.stop or None,
        "gen_ai.request.frequency_penalty": params.frequency_penalty or None,
        "gen_ai.request.presence_penalty": params.presence_penalty or None,
        "gen_ai.request.choice.count": params.n if params.n > 1 else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def response_attributes(generation: Generation, model_name: str) -> dict[str, AttributeValue]:
    """Attributes of what came out, of all choices together."""
    choices, arrival = generation.choices, generation.arrival
    first_bytes = [c.first_byte_ns for c in choices if c.first_byte_ns is not None]
    ends = [choice.end for choice in choices if choice.end is not None]
    found: dict[str, AttributeValue | None] = {
        "gen_ai.response.id": arrival.external_id,
        "gen_ai.response.model": model_name,
        "gen_ai.response.finish_reasons": [str(choice.finish_reason) for choice in choices],
        "gen_ai.response.time_to_first_chunk": (
            (min(first_bytes) - arrival.arrival_ns) / 1e9 if first_bytes else None
        ),
        "gen_ai.usage.input_tokens": len(choices[0].request.prompt_token_ids),
        "gen_ai.usage.output_tokens": sum(len(choice.token_ids) for choice in choices),
        "gen_ai.usage.cache_read.input_tokens": generation.num_cached_tokens,
        "cutaway.end_reason": ",".join(c.code.name.lower() for c in choices if c.code),
        "cutaway.preemptions": sum(end.num_preemptions for end in ends),
    }
    return {name: value for name, value in found.items() if value is not None}


def span_fields(span: Span, server_span: Span | None) -> tuple[int, int, int, int]:
    """trace_hi, trace_lo, span_id and server_span as a record has them: signed, NULL if there is none."""
    context = span.get_span_context()
    if not context.is_valid:
        return NULL, NULL, NULL, NULL
    server = NULL if server_span is None else _signed(server_span.get_span_context().span_id)
    hi, lo = context.trace_id >> 64, context.trace_id & (2**64 - 1)
    return _signed(hi), _signed(lo), _signed(context.span_id), server


def sampling_fields(params: SamplingParams) -> tuple[int, int, int, int]:
    """temperature_1e6, top_p_1e6, top_k, seed."""
    return (
        round(min(params.temperature, 1e9) * 1e6),
        round(params.top_p * 1e6),
        params.top_k or NULL,
        or_null(params.seed),
    )


def or_null(number: int | None) -> int:
    """A number as a record has it."""
    return NULL if number is None else number


def _signed(word: int) -> int:
    """An unsigned 64-bit number as the signed one with the same bits."""
    return word - 2**64 if word >= 2**63 else word
