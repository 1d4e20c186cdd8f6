"""The front end: text to requests on the way in, tokens to text on the way out.

    submit    prompt ── check ── n requests ──────────────────► core
    process   core's outputs ── text, stop strings, logprobs ── deltas ──► the user
    deliver   a choice reached the user: its story is written down

`LLM` and the API server share it; it knows no sockets and no event loop, and holds every unfinished choice.

Invariant: each choice that was submitted gets exactly one delta with a finish reason, and ends once in the
trace.

Source: vLLM 0.33 `vllm/v1/engine/input_processor.py`, `vllm/v1/engine/output_processor.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from engine.batch import TokenLogprobs
from engine.errors import ConfigError, PromptTooLong
from engine.generation import Arrival, Choice, Delta, Generation
from engine.messages import Abort, CoreOutput, Piece
from engine.outputs import Logprob, PositionLogprobs
from engine.request import Request, SamplingParams
from engine.telemetry import Telemetry
from engine.text.answer_text import AnswerText
from engine.text.tokenizer import Tokenizer
from tracing.record import Code


def served_name(model: str) -> str:
    """What users call the model: a folder's name, or the name it was given by."""
    folder = Path(model)
    return folder.resolve().name if folder.is_dir() else model


class Frontend:
    """Unfinished generations of one user-facing process."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_model_len: int,
        telemetry: Telemetry,
        *,
        detokenises: bool = True,
    ) -> None:
        """`detokenises`: tokens become text here; else outputs come with their pieces (`process_pieces`)."""
        self.tokenizer = tokenizer
        self.max_model_len = max_model_len
        self.telemetry = telemetry
        self.clock = telemetry.clock
        self.engine_id: int | None = None
        """The life of the core that new requests go to; None: not recorded."""
        self._detokenises = detokenises
        self._open: dict[int, tuple[Generation, Choice]] = {}
        """Choices that have not ended, by request id."""
        self._texts: dict[int, AnswerText] = {}
        """Their texts in the making, where that is done here."""
        self._ids = count(1)

    @property
    def num_open(self) -> int:
        """Choices that have not ended."""
        return len(self._open)

    # -- in ----------------------------------------------------------------------------------------

    def check(self, token_ids: Sequence[int], params: SamplingParams, arrival: Arrival) -> None:
        """Would this prompt be accepted? A refusal is written down.

        Raises PromptTooLong when it leaves no room in the context, ConfigError when it cannot be run.
        """
        http_status = None if arrival.server_span is None else 400
        if len(token_ids) >= self.max_model_len:
            self.reject(arrival, Code.REJECT_TOO_LONG, len(token_ids), http_status)
            raise PromptTooLong(len(token_ids), self.max_model_len)
        try:
            if not token_ids:
                raise ConfigError("the prompt is empty: give at least one token")
            self.tokenizer.check_ids(
                [*token_ids, *params.stop_token_ids, *(params.logit_bias or ())]
            )
            if params.seed is not None and not 0 <= params.seed < 2**63 - params.n:
                raise ConfigError(f"seed must be from 0 up to 2**63 - n, got {params.seed}")
        except ConfigError:
            self.reject(arrival, Code.REJECT_BAD, 400, http_status)
            raise

    def check_size(self, num_chars: int, num_messages: int = 0) -> None:
        """Raises PromptTooLong if such a text or chat cannot fit, before time goes into its tokens."""
        fewest = max(num_messages, self.tokenizer.fewest_tokens(num_chars))
        if fewest >= self.max_model_len:
            raise PromptTooLong(fewest, self.max_model_len, at_least=True)

    def reject(self, arrival: Arrival, code: Code, a0: int, http_status: int | None) -> None:
        """Write down a request that was refused; http_status None: in-process."""
        self.telemetry.reject(arrival, self._new_id(), code, a0, http_status)

    def submit(
        self,
        token_ids: list[int],
        params: SamplingParams,
        arrival: Arrival,
        *,
        prompt: str | None = None,
        priority: int = 0,
        cache_salt: str | None = None,
    ) -> Generation:
        """Accept a prompt; the caller hands `generation.requests` to the core.

        `max_tokens` is clipped to the context. Raises as `check`.
        """
        self.check(token_ids, params, arrival)
        room = self.max_model_len - len(token_ids)
        max_tokens = room if params.max_tokens is None else min(params.max_tokens, room)
        stop_token_ids = params.stop_token_ids
        if not params.ignore_eos:
            stop_token_ids = tuple(dict.fromkeys(stop_token_ids + self.tokenizer.stop_token_ids))
        choices = []
        for i in range(params.n):
            own_params = replace(
                params,
                n=1,
                seed=None if params.seed is None else params.seed + i,
                max_tokens=max_tokens,
                stop_token_ids=stop_token_ids,
            )
            request = Request(
                request_id=self._new_id(),
                prompt_token_ids=token_ids,
                params=own_params,
                arrival_ns=arrival.arrival_ns,
                sent_ns=self.clock(),
                eos_token_id=self.tokenizer.eos_token_id,
                priority=priority,
                cache_salt=cache_salt,
            )
            choices.append(Choice(i, request))
            if self._detokenises:
                text = AnswerText(self.tokenizer, token_ids, own_params)
                self._texts[request.request_id] = text
        generation = Generation(arrival, prompt, params, choices, self.engine_id)
        self._open |= {c.request.request_id: (generation, c) for c in choices}
        self.telemetry.begin(generation)
        return generation

    # -- out ---------------------------------------------------------------------------------------

    def process(self, outputs: Iterable[CoreOutput]) -> tuple[list[Delta], list[Abort]]:
        """Turn the core's outputs into deltas; the aborts are for the core, where a stop string was found."""
        pieces = []
        for output in outputs:
            text = self._texts.get(output.request_id)
            if text is not None:  # else given up here before the core heard of it
                code = None if output.end is None else output.end.code
                pieces.append((output, text.feed(output.token_ids, code)))
        return self.process_pieces(pieces, None)

    def process_pieces(
        self, pieces: Iterable[tuple[CoreOutput, Piece]], sent_ns: int | None
    ) -> tuple[list[Delta], list[Abort]]:
        """The same for outputs that come with their text; `sent_ns`: when their detokeniser sent them."""
        received_ns = self.clock()
        deltas, aborts = [], []
        for output, piece in pieces:
            found = self._open.get(output.request_id)
            if found is None:
                continue
            generation, choice = found
            if choice.stopped and output.end is None:
                continue  # computed before the core heard of the stop string
            choice.detokenised_ns = sent_ns
            deltas.append(self._advance(generation, choice, output, piece, received_ns))
            if choice.stop_index is not None and output.end is None:
                abort = Abort(output.request_id, Code.END_STOP_STRING, choice.stop_index)
                aborts.append(abort)
        return deltas, aborts

    def abort(
        self, code: Code, generation: Generation | None = None, a0: int | None = None
    ) -> list[Abort]:
        """Messages that end what is unfinished of a generation (None: of all); the core answers with ends.

        `a0`: the code's argument; None: the number of tokens so far.
        """
        everyone = (choice for _, choice in self._open.values())
        choices = everyone if generation is None else generation.choices
        return [
            Abort(choice.request.request_id, code, len(choice.token_ids) if a0 is None else a0)
            for choice in choices
            if choice.code is None
        ]

    def give_up(
        self, code: Code, generation: Generation | None = None, a0: int | None = None
    ) -> list[Delta]:
        """End what is unfinished of a generation (None: of all) without the core: it will not answer.

        `a0` as for `abort`; of a lost engine it is the engine's number.
        """
        now = self.clock()
        deltas = []
        for request_id, (owner, choice) in list(self._open.items()):
            if generation is None or owner is generation:
                arg = len(choice.token_ids) if a0 is None else a0
                if code is Code.LOST_ENGINE:
                    arg = owner.engine_id or 0
                choice.finish(code, arg, None, now)
                deltas.append(Delta(owner, choice, "", (), (), None, choice.finish_reason))
                self._forget(request_id)
        return deltas

    def deliver(self, generation: Generation, choice: Choice, http_status: int | None) -> None:
        """The choice's end has reached the user, or the user has gone."""
        assert not choice.delivered, f"request {choice.request.request_id} was delivered twice"
        choice.delivered = True
        self.telemetry.end_choice(generation, choice, http_status)
        if all(other.delivered for other in generation.choices):
            self.telemetry.end(generation)

    # -- inside ------------------------------------------------------------------------------------

    def _new_id(self) -> int:
        """Unique in the run: the front end's process number, then its own counter."""
        return (self.telemetry.recorder.proc_id << 32) + next(self._ids)

    def _forget(self, request_id: int) -> None:
        del self._open[request_id]
        self._texts.pop(request_id, None)

    def _advance(
        self,
        generation: Generation,
        choice: Choice,
        output: CoreOutput,
        piece: Piece,
        received_ns: int,
    ) -> Delta:
        """Take one output of the core into its choice."""
        gap_ns = choice.take(piece, output.token_ids, output.ts_ns)
        logprobs = tuple(self._describe(entry) for entry in output.logprobs[: piece.num_taken])
        choice.logprobs += logprobs
        if output.end is not None:
            end = output.end
            choice.finish(Code(end.code), end.a0, end, received_ns)
            self._forget(output.request_id)
        token_ids = output.token_ids[: piece.num_taken]
        reason = choice.finish_reason
        return Delta(generation, choice, piece.text, token_ids, logprobs, gap_ns, reason)

    def _describe(self, entry: TokenLogprobs) -> PositionLogprobs:
        return PositionLogprobs(
            chosen=self._name(entry.token_id, entry.logprob),
            rank=entry.rank,
            top=tuple(self._name(token_id, logprob) for token_id, logprob in entry.top),
        )

    def _name(self, token_id: int, logprob: float) -> Logprob:
        token_bytes = self.tokenizer.token_bytes(token_id)
        return Logprob(token_id, token_bytes.decode(errors="replace"), token_bytes, logprob)
