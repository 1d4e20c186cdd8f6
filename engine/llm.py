"""The engine in your own process: `LLM(...).generate(...)`, or step by step.

    with LLM("smollm2-135m") as llm:
        print(llm.generate("The sky is")[0].outputs[0].text)

        answer = llm.add("Count to ten:", SamplingParams(max_tokens=8))
        while not answer.finished:
            for delta in llm.step():
                print(delta.choice.index, repr(delta.text))

It is the server without its sockets: the same front end, the same core, traced in the same way when it is
given what `tracing.start` returns.

Source: interface of vLLM 0.33 `vllm/entrypoints/llm.py`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from engine.build import build_core
from engine.config import EngineConfig
from engine.errors import ConfigError
from engine.frontend import Frontend, served_name
from engine.generation import Arrival, Delta, Generation
from engine.outputs import RequestOutput
from engine.request import SamplingParams
from engine.telemetry import Telemetry
from engine.text.chat_template import Message
from engine.text.tokenizer import Tokenizer
from tracing.record import NO_RECORDER, Code, Trace

Prompt = str | Sequence[int]
"""Text, or token ids."""
Params = SamplingParams | Sequence[SamplingParams] | None
"""One for all prompts, or one each; None: the defaults."""


class LLM:
    """A loaded model with its engine core. Every field of `EngineConfig` can be given by name.

    Raises ModelError, ConfigError or CapacityError when the model cannot be loaded so.
    """

    def __init__(
        self, model: str = "smollm2-135m", *, trace: Trace | None = None, **config: Any
    ) -> None:
        recorder = NO_RECORDER if trace is None else trace.recorder("core")
        if recorder.is_described:
            raise ConfigError(
                "this recording has an engine already, and two would share its numbers: give each LLM a "
                "recording of its own (tracing.start)"
            )
        self.core, self.ready = build_core(EngineConfig(model=model, **config), recorder)
        tokenizer = Tokenizer.load(Path(self.ready.model_dir))
        telemetry = Telemetry(trace, served_name(model))
        self.frontend = Frontend(tokenizer, self.ready.max_model_len, telemetry)
        self._closed = False

    # -- many prompts at once ------------------------------------------------------------------------

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: Params = None,
        *,
        progress: bool = True,
    ) -> list[RequestOutput]:
        """Continue prompts; returns one output per prompt, in their order.

        A list of integers is one prompt. Raises CapacityError for a prompt that is too long and ConfigError
        for one that cannot be run; then none of the prompts is continued.
        """
        many = _as_prompts(prompts)
        adds = [partial(self.add, p, q) for p, q in zip(many, _spread(params, many), strict=True)]
        return self._run(adds, progress)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        params: Params = None,
        *,
        progress: bool = True,
    ) -> list[RequestOutput]:
        """Answer one chat, or several; returns one output per chat. Raises as `generate`."""
        chats = _as_chats(messages)
        spread = _spread(params, chats)
        return self._run(
            [partial(self.add_chat, c, q) for c, q in zip(chats, spread, strict=True)], progress
        )

    # -- step by step --------------------------------------------------------------------------------

    def add(self, prompt: Prompt, params: SamplingParams | None = None) -> Generation:
        """Hand a prompt to the core; it moves with each `step`.

        Raises ConfigError for parameters that cannot be run, or when this LLM is closed, and CapacityError
        for a prompt that is too long.
        """
        arrival = Arrival(arrival_ns=self.frontend.clock())
        if isinstance(prompt, str):
            token_ids = self.frontend.tokenizer.encode(prompt)
            return self._submit(token_ids, params, arrival, prompt)
        return self._submit(list(prompt), params, arrival, None)

    def add_chat(
        self, messages: Sequence[Message], params: SamplingParams | None = None
    ) -> Generation:
        """Hand a chat to the core, to be answered by the assistant."""
        arrival = Arrival(arrival_ns=self.frontend.clock(), operation="chat")
        return self._submit(self.frontend.tokenizer.encode_chat(messages), params, arrival, None)

    @property
    def has_work(self) -> bool:
        """True while a step would bring something."""
        return self.core.has_work

    def step(self) -> list[Delta]:
        """One step of the engine: what it brought, for whatever prompts took part."""
        deltas, aborts = self.frontend.process(self.core.step())
        for abort in aborts:
            self.core.abort(abort.request_id, Code(abort.code), abort.a0)
        for delta in deltas:
            if delta.finish_reason is not None:
                self.frontend.deliver(delta.generation, delta.choice, http_status=None)
        return deltas

    def abort(self, generation: Generation) -> None:
        """End a generation now; its last delta comes with the next step."""
        for abort in self.frontend.abort(Code.ABORT_CALL, generation):
            self.core.abort(abort.request_id, Code(abort.code), abort.a0)

    # -- end -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """End what is open and give the model's memory back."""
        if self._closed:
            return
        self._closed = True
        for abort in self.frontend.abort(Code.ABORT_SHUTDOWN):
            self.core.abort(abort.request_id, Code(abort.code), abort.a0)
        while self.has_work:  # the ends of what was aborted
            self.step()
        self.core.close()

    def __enter__(self) -> Self:
        """Close it at the end of a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    # -- inside --------------------------------------------------------------------------------------

    def _submit(
        self,
        token_ids: list[int],
        params: SamplingParams | None,
        arrival: Arrival,
        prompt: str | None,
    ) -> Generation:
        if self._closed:
            raise ConfigError("this LLM is closed, and its memory given back: make a new one")
        generation = self.frontend.submit(
            token_ids, params or SamplingParams(), arrival, prompt=prompt
        )
        for request in generation.requests:
            self.core.add(request)
        return generation

    def _run(self, adds: Sequence[Callable[[], Generation]], progress: bool) -> list[RequestOutput]:
        """Add all, then step until all have ended."""
        generations: list[Generation] = []
        try:
            generations += (add() for add in adds)
            with _Bar(len(generations), progress) as bar:
                unfinished = set(generations)
                while unfinished:
                    deltas = self.step()
                    bar.show(deltas, len(generations) - len(unfinished))
                    unfinished -= {d.generation for d in deltas if d.generation.finished}
            if not self.has_work:
                self.core.step()  # an idle turn: sglang's ratio starts afresh
        except BaseException:  # also Ctrl-C: nothing may be left running behind the user's back
            for generation in generations:
                self.abort(generation)
            raise
        return [generation.output() for generation in generations]


class _Bar:
    """Progress on the terminal: prompts done, tokens per second."""

    def __init__(self, num_prompts: int, wanted: bool) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("generate"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("prompts"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[rate]}"),
            console=console,
            transient=True,
            disable=not (wanted and console.is_terminal),
        )
        self._task: TaskID = self._progress.add_task("generate", total=num_prompts, rate="")
        self._num_tokens = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, deltas: Sequence[Delta], num_done: int) -> None:
        """Note what a step brought."""
        self._num_tokens += sum(len(delta.token_ids) for delta in deltas)
        elapsed = self._progress.tasks[0].elapsed
        rate = f"{self._num_tokens / elapsed:,.0f} tokens/s" if elapsed else ""
        self._progress.update(self._task, completed=num_done, rate=rate)


def _as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """One prompt or several; a list of integers is one."""
    if isinstance(prompts, str):
        return [prompts]
    first = next(iter(prompts), None)
    if isinstance(first, int):
        return [prompts]  # type: ignore[list-item]  # its first item says that it is token ids
    return list(prompts)  # type: ignore[arg-type]  # its first item says that it is prompts


def _as_chats(
    messages: Sequence[Message] | Sequence[Sequence[Message]],
) -> list[Sequence[Message]]:
    """One chat or several; a list of messages is one."""
    first = next(iter(messages), None)
    if first is not None and "role" in first:
        return [messages]  # type: ignore[list-item]  # its first item says that it is a chat
    return list(messages)  # type: ignore[arg-type]  # its first item says that it is chats


def _spread(params: Params, items: Sequence[object]) -> list[SamplingParams]:
    """Parameters for each item."""
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * len(items)
    if len(params) != len(items):
        raise ConfigError(f"{len(items)} prompts were given, but {len(params)} sampling parameters")
    return list(params)
