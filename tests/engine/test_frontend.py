from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import pytest

from engine.batch import Batch, StepOutput, TokenLogprobs
from engine.config import EngineConfig
from engine.core import EngineCore
from engine.errors import CapacityError, ConfigError
from engine.frontend import Frontend, served_name
from engine.generation import Arrival, Delta, Generation
from engine.request import SamplingParams
from engine.scheduler import make_scheduler
from engine.telemetry import Telemetry
from engine.text.tokenizer import Tokenizer
from tests.engine.recorded import OFFSET_NS, MemoryTrace
from tracing.record import Code, Kind, Phase

MAX_MODEL_LEN = 64
TEXT = "The lazy dog sleeps 😀 in the sun, and then jumps."


class ScriptedExecutor:
    """Says a given text, token by token, whatever was asked."""

    depth = 1

    def __init__(self, script: list[int]) -> None:
        self.script = script
        self.outputs: deque[StepOutput] = deque()

    def submit(self, batch: Batch) -> None:
        rows = [
            (self.script[row.num_tokens - row.seq.num_prompt_tokens],) if row.samples else ()
            for row in batch.rows
        ]
        logprobs = tuple(
            TokenLogprobs(t[0], -0.5, 1, ((t[0], -0.5), (7, -1.5))) if t else None for t in rows
        )
        self.outputs.append(StepOutput(tuple(rows), logprobs))

    def collect(self) -> StepOutput:
        return self.outputs.popleft()

    def close(self) -> None:
        self.outputs.clear()


@dataclass
class Engine:
    """A front end on a real core that says a scripted text."""

    trace: MemoryTrace
    frontend: Frontend
    core: EngineCore

    def ask(self, prompt: str = "What is", **params: object) -> Generation:
        arrival = Arrival(arrival_ns=self.frontend.clock(), external_id="cmpl-1")
        token_ids = self.frontend.tokenizer.encode(prompt)
        generation = self.frontend.submit(token_ids, SamplingParams(**params), arrival)  # type: ignore[arg-type]
        for request in generation.requests:
            self.core.add(request)
        return generation

    def step(self) -> list[Delta]:
        deltas, aborts = self.frontend.process(self.core.step())
        for abort in aborts:
            self.core.abort(abort.request_id, Code(abort.code), abort.a0)
        for delta in deltas:
            if delta.finish_reason:
                self.frontend.deliver(delta.generation, delta.choice, None)
        return deltas

    def run(self) -> list[Delta]:
        deltas = []
        while self.core.has_work:
            deltas += self.step()
        return deltas


@pytest.fixture
def engine(byte_level: Tokenizer) -> Engine:
    assert byte_level.eos_token_id is not None
    script = byte_level.encode(TEXT) + [byte_level.eos_token_id] * 64
    trace = MemoryTrace()
    config = EngineConfig(num_blocks=65, block_size=4, max_model_len=MAX_MODEL_LEN)
    recorder = trace.recorder("core")
    core = EngineCore(make_scheduler(config, recorder), ScriptedExecutor(script), recorder)
    return Engine(trace, Frontend(byte_level, MAX_MODEL_LEN, Telemetry(trace, "toy")), core)


def test_text_streams_and_the_end_of_sequence_token_is_not_shown(engine: Engine) -> None:
    generation = engine.ask(max_tokens=None)
    deltas = engine.run()
    [answer] = generation.output().outputs
    assert answer.text == TEXT
    assert "".join(delta.text for delta in deltas) == answer.text
    assert (answer.finish_reason, answer.stop_reason) == ("stop", None)
    assert answer.token_ids[-1] == engine.frontend.tokenizer.eos_token_id
    assert [d.finish_reason for d in deltas] == [None] * (len(deltas) - 1) + ["stop"]
    assert [t for d in deltas for t in d.token_ids] == answer.token_ids


def test_max_tokens_ends_with_length_and_is_clipped_to_the_context(engine: Engine) -> None:
    generation = engine.ask(max_tokens=3)
    engine.run()
    assert generation.output().outputs[0].finish_reason == "length"
    assert len(generation.output().outputs[0].token_ids) == 3
    whole = engine.ask(max_tokens=10**6, ignore_eos=True)
    prompt_len = len(whole.requests[0].prompt_token_ids)
    assert whole.requests[0].params.max_tokens == MAX_MODEL_LEN - prompt_len
    engine.run()
    assert len(whole.output().outputs[0].token_ids) == MAX_MODEL_LEN - prompt_len


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_string_over_token_borders_ends_the_request_in_the_core(
    engine: Engine, include: bool
) -> None:
    generation = engine.ask(
        stop=("never", "s 😀 i"), max_tokens=None, include_stop_str_in_output=include
    )
    deltas = engine.run()
    [answer] = generation.output().outputs
    assert answer.text == "The lazy dog sleep" + ("s 😀 i" if include else "")
    assert "".join(delta.text for delta in deltas) == answer.text
    assert (answer.finish_reason, answer.stop_reason) == ("stop", "s 😀 i")
    assert engine.core.scheduler.kv.num_used == 0
    [end] = engine.trace.records(Kind.REQUEST_END)
    assert (end["code"], end["a0"]) == (Code.END_STOP_STRING, 1)
    assert end["num_output_tokens"] == len(answer.token_ids) < 20
    shown = engine.frontend.tokenizer.decode(answer.token_ids)
    assert shown.startswith("The lazy dog sleeps 😀 i"), "tokens up to the stop are part of it"


def test_stop_strings_count_only_after_min_tokens(engine: Engine) -> None:
    generation = engine.ask(stop=("e",), min_tokens=8, max_tokens=None)
    engine.run()
    [answer] = generation.output().outputs
    first = engine.frontend.tokenizer.decode(answer.token_ids[:8])
    assert "e" in first
    assert answer.text.startswith(first)
    assert "e" not in answer.text[len(first) :]
    assert answer.finish_reason == "stop"


def test_a_stop_string_in_the_last_token_wins_over_the_length(engine: Engine) -> None:
    num_tokens = len(engine.frontend.tokenizer.encode("The lazy dog"))
    generation = engine.ask(stop=("dog",), max_tokens=num_tokens)
    engine.run()
    [answer] = generation.output().outputs
    assert (answer.text, answer.finish_reason, answer.stop_reason) == ("The lazy ", "stop", "dog")
    assert [end["code"] for end in engine.trace.records(Kind.REQUEST_END)] == [Code.END_STOP_STRING]


def test_a_stop_token_is_named_and_hidden_unless_asked_for(engine: Engine) -> None:
    token_id = engine.frontend.tokenizer.encode("The lazy dog")[-1]
    generation = engine.ask(stop_token_ids=(token_id,), max_tokens=None)
    engine.run()
    [answer] = generation.output().outputs
    assert (answer.finish_reason, answer.stop_reason) == ("stop", token_id)
    assert "The lazy dog".startswith(answer.text)
    assert answer.text != "The lazy dog"
    again = engine.ask(stop_token_ids=(token_id,), max_tokens=None, include_stop_str_in_output=True)
    engine.run()
    assert again.output().outputs[0].text == "The lazy dog"


def test_the_models_own_stop_tokens_count_unless_eos_is_ignored(engine: Engine) -> None:
    token_id = engine.frontend.tokenizer.encode("The lazy dog")[-1]
    engine.frontend.tokenizer.stop_token_ids = (token_id,)
    try:
        plain, ignoring = engine.ask(max_tokens=None), engine.ask(max_tokens=20, ignore_eos=True)
        engine.run()
    finally:
        engine.frontend.tokenizer.stop_token_ids = ()
    assert plain.output().outputs[0].stop_reason == token_id
    assert len(ignoring.output().outputs[0].token_ids) == 20


def test_n_choices_are_requests_with_ids_and_seeds_of_their_own(engine: Engine) -> None:
    generation = engine.ask(n=3, seed=11, max_tokens=4)
    assert [r.params.seed for r in generation.requests] == [11, 12, 13]
    assert {r.params.n for r in generation.requests} == {1}
    engine.run()
    output = generation.output()
    assert output.finished
    assert [answer.index for answer in output.outputs] == [0, 1, 2]
    ids = [answer.request_id for answer in output.outputs]
    assert len(set(ids)) == 3
    rows = engine.trace.records(Kind.REQUEST)
    assert [row["request_id"] for row in rows] == ids
    assert [row["parent_request"] for row in rows] == [None, ids[0], ids[0]]
    assert len(engine.trace.records(Kind.REQUEST_END)) == 3
    [span] = engine.trace.spans("text_completion toy")
    assert {row["span_id"] & (2**64 - 1) for row in rows} == {span.context.span_id}
    assert span.attributes["gen_ai.request.choice.count"] == 3
    assert span.attributes["gen_ai.response.finish_reasons"] == ("length",) * 3


def test_logprobs_name_tokens_and_their_bytes(engine: Engine) -> None:
    generation = engine.ask(logprobs=2, max_tokens=3)
    deltas = engine.run()
    [answer] = generation.output().outputs
    assert answer.logprobs is not None
    assert [entry.chosen.token_id for entry in answer.logprobs] == answer.token_ids
    assert b"".join(e.chosen.token_bytes for e in answer.logprobs).decode() == answer.text
    assert all((e.rank, len(e.top)) == (1, 2) for e in answer.logprobs)
    assert [entry for delta in deltas for entry in delta.logprobs] == answer.logprobs
    assert engine.ask(max_tokens=1).output().outputs[0].logprobs is None


def test_a_prompt_that_leaves_no_room_is_refused_with_the_numbers(engine: Engine) -> None:
    arrival = Arrival(arrival_ns=engine.frontend.clock())
    with pytest.raises(CapacityError, match=r"64 tokens.*context of 64.*room for 63"):
        engine.frontend.submit([5] * 64, SamplingParams(), arrival)
    with pytest.raises(ConfigError, match="prompt is empty"):
        engine.frontend.submit([], SamplingParams(), arrival)
    with pytest.raises(ConfigError, match="token id 999"):
        engine.frontend.submit([999], SamplingParams(), arrival)
    with pytest.raises(ConfigError, match="seed"):
        engine.frontend.submit([1], SamplingParams(seed=2**63), arrival)
    ends = engine.trace.records(Kind.REQUEST_END)
    assert [end["code"] for end in ends] == [Code.REJECT_TOO_LONG] + [Code.REJECT_BAD] * 3
    assert ends[0]["a0"] == 64
    asked = engine.trace.records(Kind.REQUEST)
    assert [row["num_prompt_tokens"] for row in asked] == [64, None, None, None]
    spans = engine.trace.spans("text_completion toy")
    assert [s.attributes["error.type"] for s in spans] == ["reject_too_long"] + ["reject_bad"] * 3
    assert not engine.core.has_work


def test_an_abort_is_answered_by_the_core_with_what_was_said_so_far(engine: Engine) -> None:
    generation = engine.ask(max_tokens=None)
    for _ in range(4):
        engine.step()
    for abort in engine.frontend.abort(Code.ABORT_CALL, generation):
        engine.core.abort(abort.request_id, Code(abort.code), abort.a0)
    engine.run()
    [answer] = generation.output().outputs
    assert answer.finish_reason == "abort"
    assert len(answer.token_ids) == 4
    [end] = engine.trace.records(Kind.REQUEST_END)
    assert (end["code"], end["a0"]) == (Code.ABORT_CALL, 4)
    assert engine.frontend.abort(Code.ABORT_CALL, generation) == []


def test_a_lost_core_ends_everything_once(engine: Engine) -> None:
    started, waiting = engine.ask(max_tokens=None), engine.ask(max_tokens=None)
    engine.step()
    deltas = engine.frontend.give_up(Code.LOST_ENGINE)
    assert [d.finish_reason for d in deltas] == ["abort", "abort"]
    assert engine.frontend.give_up(Code.LOST_ENGINE) == []
    for delta in deltas:
        engine.frontend.deliver(delta.generation, delta.choice, None)
    late, _ = engine.frontend.process(engine.core.step())
    assert late == []
    assert started.finished
    assert waiting.finished
    check_phases(engine.trace)
    for span in engine.trace.spans("text_completion toy"):
        assert span.attributes["error.type"] == "lost_engine"


def test_one_generation_can_be_given_up_alone(engine: Engine) -> None:
    broken, other = engine.ask(max_tokens=None), engine.ask(max_tokens=5)
    engine.step()
    [delta] = engine.frontend.give_up(Code.ABORT_SHUTDOWN, broken)
    engine.frontend.deliver(broken, delta.choice, 200)
    engine.run()
    assert other.output().outputs[0].finish_reason == "length"
    ends = {end["request_id"]: end for end in engine.trace.records(Kind.REQUEST_END)}
    end = ends[broken.request_id]
    assert (end["code"], end["a0"], end["http_status"]) == (Code.ABORT_SHUTDOWN, 1, 200)
    check_phases(engine.trace)


def check_phases(trace: MemoryTrace) -> None:
    """Phases tile each request's life, and are told by spans with the same times."""
    ends = {row["request_id"]: row["end_ns"] for row in trace.records(Kind.REQUEST_END)}
    asked = {row["request_id"]: row["arrival_ns"] for row in trace.records(Kind.REQUEST)}
    assert asked.keys() == ends.keys()
    phases = trace.records(Kind.PHASE)
    for request_id, arrival_ns in asked.items():
        own = [row for row in phases if row["request_id"] == request_id]
        borders = [own[0]["start_ns"]]
        for row in own:
            assert row["start_ns"] == borders[-1]
            assert row["end_ns"] > row["start_ns"]
            borders.append(row["end_ns"])
        assert (borders[0], borders[-1]) == (arrival_ns, ends[request_id])
    told = [
        (s.name, s.attributes["cutaway.request"], s.start_time - OFFSET_NS, s.end_time - OFFSET_NS)
        for s in trace.spans()
        if s.name in {phase.name.lower() for phase in Phase}
    ]
    written = [
        (Phase(r["phase"]).name.lower(), r["request_id"], r["start_ns"], r["end_ns"])
        for r in phases
    ]
    assert sorted(told) == sorted(written)


def test_phases_tile_a_life_and_spans_tell_the_same_times(engine: Engine) -> None:
    engine.ask("The capital of France is", max_tokens=5)
    engine.ask(max_tokens=None, n=2)
    engine.run()
    check_phases(engine.trace)
    names = [Phase(row["phase"]).name for row in engine.trace.records(Kind.PHASE)]
    for name in ("TOKENISE", "TO_CORE", "QUEUE", "PREFILL", "DECODE", "TO_API", "DELIVER"):
        assert name in names
    steps = {
        Phase(r["phase"]): (r["first_step"], r["last_step"])
        for r in engine.trace.records(Kind.PHASE)[: names.index("DELIVER")]
    }
    assert steps[Phase.QUEUE] == (None, None)
    assert steps[Phase.PREFILL] == (0, 0)
    assert steps[Phase.DECODE] == (1, 4)


def test_a_preempted_request_tells_both_lives(byte_level: Tokenizer) -> None:
    trace = MemoryTrace()
    config = EngineConfig(
        num_blocks=9, block_size=4, max_model_len=32, max_num_seqs=2, cache="none"
    )
    script = byte_level.encode("and then the dog sleeps in the sun, " * 4)
    recorder = trace.recorder("core")
    core = EngineCore(make_scheduler(config, recorder), ScriptedExecutor(script), recorder)
    engine = Engine(trace, Frontend(byte_level, 32, Telemetry(trace, "toy")), core)
    for _ in range(2):
        engine.ask("What is the capital of", max_tokens=16)
    engine.run()
    check_phases(trace)
    ends = trace.records(Kind.REQUEST_END)
    assert sorted(end["num_preemptions"] for end in ends) == [0, 1]
    [preempted] = [r for r in trace.records(Kind.PHASE) if r["phase"] == Phase.PREEMPTED]
    own = [r for r in trace.records(Kind.PHASE) if r["request_id"] == preempted["request_id"]]
    lives = [Phase(r["phase"]) for r in own if r["first_step"] is not None]
    assert lives == [
        *(Phase.PREFILL, Phase.DECODE, Phase.PREEMPTED, Phase.PREFILL, Phase.DECODE),
    ]
    steps = [(r["first_step"], r["last_step"]) for r in own if r["first_step"] is not None]
    assert all(a[1] + 1 == b[0] for a, b in pairwise(steps))


def test_the_span_of_a_prompt_says_what_was_asked_and_what_came(engine: Engine) -> None:
    generation = engine.ask(temperature=0.5, top_p=0.9, top_k=5, seed=3, stop=("x",), max_tokens=4)
    engine.run()
    [span] = engine.trace.spans("text_completion toy")
    assert span.parent is None
    prompt_len = len(generation.requests[0].prompt_token_ids)
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "cutaway",
        "gen_ai.request.model": "toy",
        "gen_ai.request.stream": False,
        "gen_ai.output.type": "text",
        "gen_ai.request.max_tokens": 4,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.top_k": 5,
        "gen_ai.request.seed": 3,
        "gen_ai.request.stop_sequences": ("x",),
        "gen_ai.response.id": "cmpl-1",
        "gen_ai.response.model": "toy",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": prompt_len,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "cutaway.request": generation.request_id,
        "cutaway.end_reason": "end_length",
        "cutaway.preemptions": 0,
    }
    children = [s for s in engine.trace.spans() if s.parent is not None]
    assert {s.parent.span_id for s in children} == {span.context.span_id}


def test_the_cache_salt_is_not_written_down_but_equal_salts_can_be_told(engine: Engine) -> None:
    frontend = engine.frontend
    for salt in ("secret", "other", "secret", None):
        frontend.submit(
            [5, 6], SamplingParams(), Arrival(arrival_ns=frontend.clock()), cache_salt=salt
        )
    spaces = [row["namespace_id"] for row in engine.trace.records(Kind.REQUEST)]
    assert spaces[0] == spaces[2] != spaces[1]
    assert spaces[3] == 0
    assert b"secret" not in engine.trace.sinks["api"].data


def test_a_cached_prefix_is_reported_at_the_end(engine: Engine) -> None:
    prompt = "What is the capital of France? The capital of France is Paris."
    cold = engine.ask(prompt, max_tokens=2)
    assert cold.num_cached_tokens is None
    engine.run()
    warm = engine.ask(prompt, max_tokens=2)
    engine.run()
    assert cold.output().num_cached_tokens == 0
    num_full = len(warm.requests[0].prompt_token_ids) // 4 * 4
    assert warm.output().num_cached_tokens in (num_full, num_full - 4)


def test_without_a_trace_nothing_is_recorded_and_everything_works(byte_level: Tokenizer) -> None:
    telemetry = Telemetry(None, "toy")
    frontend = Frontend(byte_level, 64, telemetry)
    generation = frontend.submit([5], SamplingParams(), Arrival(arrival_ns=telemetry.clock()))
    assert not generation.span.is_recording()
    [delta] = frontend.give_up(Code.LOST_ENGINE)
    frontend.deliver(generation, delta.choice, None)
    assert delta.choice.delivered


def test_a_folder_is_served_under_its_own_name(tmp_path) -> None:
    (tmp_path / "my-model").mkdir()
    assert served_name(str(tmp_path / "my-model")) == "my-model"
    assert served_name("smollm2-135m") == "smollm2-135m"
    assert served_name("owner/name") == "owner/name"
