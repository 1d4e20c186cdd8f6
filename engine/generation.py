"""A generation: one prompt on its way through the front end, and its `n` choices.

The engine core knows only requests; n > 1 becomes n of them here, each a `Choice` with an id and a seed of
its own. The first choice stands for the prompt; the others name it as their parent.

    Generation ── prompt, params, arrival
      ├─ Choice 0   request 7          text "..."
      └─ Choice 1   request 8, parent 7

Invariant: a choice ends exactly once, by the core's `End` (or because the core was lost). A stop string is
found outside the core, so the core is asked to end the request; until it answers, further tokens are dropped.

Source: vLLM 0.33 `vllm/v1/engine/parallel_sampling.py` (ParentRequest), `output_processor.py` (RequestState).
"""

from dataclasses import dataclass

from opentelemetry.trace import INVALID_SPAN, Span

from engine.fates import FATES
from engine.messages import End, Piece
from engine.outputs import CompletionOutput, FinishReason, PositionLogprobs, RequestOutput
from engine.request import Request, SamplingParams
from tracing.record import Code


@dataclass(slots=True, kw_only=True)
class Arrival:
    """What is known of a request before its prompt is tokenised; times on the recorder's clock."""

    operation: str = "text_completion"
    """`chat` or `text_completion`, OpenTelemetry's names."""
    arrival_ns: int
    """In a server: the last byte of the request was read."""
    tokenise_ns: int = 0
    """When tokenising began; 0: at arrival."""
    external_id: str | None = None
    """The id that the client knows it by."""
    stream: bool = False
    server_span: Span | None = None
    """The HTTP request's span; None: in-process."""


class Choice:
    """One request as the user sees it: text, tokens and end."""

    def __init__(self, index: int, request: Request) -> None:
        self.index = index
        self.request = request
        self.token_ids: list[int] = []
        self.logprobs: list[PositionLogprobs] = []
        self.stop_index: int | None = None
        """Which stop string was found: whatever the core still sends is not part of the answer."""
        self.end: End | None = None
        """The core's word; None: still running, or the core was lost."""
        self.code: Code | None = None
        """Why it ended; None: it has not."""
        self.a0 = 0
        """The code's argument."""
        self.first_token_ns: int | None = None
        self.last_token_ns: int | None = None
        self.detokenised_ns: int | None = None
        """When a detokeniser of its own process sent the last piece on; None: there is none."""
        self.received_ns = 0
        """When the front end had the end in hand."""
        self.first_byte_ns: int | None = None
        """When the first piece of text was handed to the transport; None: no transport."""
        self.delivered = False
        """The end has reached the user, or the user has gone."""
        self.detokenise_ns = 0
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """Everything shown so far."""
        return "".join(self._texts)

    @property
    def stopped(self) -> bool:
        """A stop string was found."""
        return self.stop_index is not None

    @property
    def finish_reason(self) -> FinishReason | None:
        """OpenAI's word for the end; None while it runs."""
        return None if self.code is None else FATES[self.code].finish_reason

    @property
    def stop_reason(self) -> str | int | None:
        """The stop string or token that ended it."""
        if self.code is Code.END_STOP_STRING:
            return self.request.params.stop[self.a0]
        return self.a0 if self.code is Code.END_STOP_TOKEN else None

    def take(self, piece: Piece, token_ids: tuple[int, ...], ts_ns: int) -> int | None:
        """Take what the core sampled at `ts_ns`; returns the time since the token before, if any."""
        self._texts.append(piece.text)
        self.detokenise_ns += piece.detokenise_ns
        self.stop_index = piece.stop_index
        self.token_ids += token_ids[: piece.num_taken]
        if not piece.num_taken:
            return None
        before, self.last_token_ns = self.last_token_ns, ts_ns
        if before is None:
            self.first_token_ns = ts_ns
            return None
        return ts_ns - before

    def finish(self, code: Code, a0: int, end: End | None, received_ns: int) -> None:
        """Note the end. A stop string wins over what the core found in the same step."""
        assert self.code is None, f"request {self.request.request_id} ended twice"
        self.end, self.received_ns = end, received_ns
        if self.stop_index is not None:
            code, a0 = Code.END_STOP_STRING, self.stop_index
        self.code, self.a0 = code, a0

    def output(self) -> CompletionOutput:
        """The answer so far."""
        return CompletionOutput(
            index=self.index,
            request_id=self.request.request_id,
            text=self.text,
            token_ids=list(self.token_ids),
            logprobs=None if self.request.params.logprobs is None else list(self.logprobs),
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
        )


@dataclass(slots=True, eq=False)
class Generation:
    """One prompt and its choices."""

    arrival: Arrival
    prompt: str | None
    params: SamplingParams
    """As asked, n included."""
    choices: list[Choice]
    engine_id: int | None = None
    """The life of the core that serves it; None: not recorded."""
    span: Span = INVALID_SPAN
    """The GenAI span, open until the last choice is delivered."""

    @property
    def request_id(self) -> int:
        """Id of the first choice, which stands for all."""
        return self.choices[0].request.request_id

    @property
    def requests(self) -> list[Request]:
        """What the engine core is to be given."""
        return [choice.request for choice in self.choices]

    @property
    def finished(self) -> bool:
        """True once every choice has ended."""
        return all(choice.code is not None for choice in self.choices)

    @property
    def num_cached_tokens(self) -> int | None:
        """What the prefix cache had of the prompt when the first choice was admitted; None: not known."""
        end = self.choices[0].end
        return None if end is None else end.num_cached_tokens

    def output(self) -> RequestOutput:
        """The answers so far."""
        first = self.choices[0].request
        return RequestOutput(
            request_id=first.request_id,
            prompt=self.prompt,
            prompt_token_ids=first.prompt_token_ids,
            outputs=[choice.output() for choice in self.choices],
            finished=self.finished,
            num_cached_tokens=self.num_cached_tokens,
        )


@dataclass(frozen=True, slots=True)
class Delta:
    """What one step of the engine brought for one choice."""

    generation: Generation
    choice: Choice
    text: str
    """New text; may be empty while a character or a possible stop string is incomplete."""
    token_ids: tuple[int, ...]
    logprobs: tuple[PositionLogprobs, ...]
    gap_ns: int | None
    """Since the choice's token before; None: there was none, or there is no token here."""
    finish_reason: FinishReason | None
    """Set in the last delta of a choice."""
