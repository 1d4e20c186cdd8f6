import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine import LLM, CapacityError, ConfigError, SamplingParams
from tests.engine.recorded import MemoryTrace
from tracing.record import Code, Kind

GREEDY = SamplingParams(temperature=0, max_tokens=12)


@pytest.fixture(scope="module")
def llm(chat_model: Path) -> Iterator[LLM]:
    with LLM(str(chat_model), dtype="float32", num_blocks=129, max_model_len=256) as llm:
        yield llm


def test_prompts_are_answered_in_their_order_and_alike_alone_or_together(llm: LLM) -> None:
    prompts = ["The quick brown", "What is the capital", "大模型推理", "Emoji: 😀"]
    together = llm.generate(prompts, GREEDY)
    assert [output.prompt for output in together] == prompts
    assert all(output.finished for output in together)
    for prompt, output in zip(prompts, together, strict=True):
        [answer] = output.outputs
        assert 1 <= len(answer.token_ids) <= 12
        [alone] = llm.generate(prompt, GREEDY)
        assert alone.outputs[0].token_ids == answer.token_ids
        assert alone.outputs[0].text == answer.text
    assert not llm.has_work


def test_token_ids_are_a_prompt_too(llm: LLM) -> None:
    token_ids = llm.frontend.tokenizer.encode("The quick brown")
    [as_text] = llm.generate("The quick brown", GREEDY)
    [as_ids] = llm.generate(token_ids, GREEDY)
    several = llm.generate([token_ids, "The quick brown"], GREEDY)
    answers = {tuple(o.outputs[0].token_ids) for o in [as_text, as_ids, *several]}
    assert len(answers) == 1
    assert as_ids.prompt is None
    assert as_ids.prompt_token_ids == token_ids
    assert llm.generate([]) == []


def test_a_chat_is_the_templates_prompt(llm: LLM) -> None:
    messages = [{"role": "user", "content": "What is the sun?"}]
    text = "<|start|>user\nWhat is the sun?<|end|>\n<|start|>assistant\n"
    [chat] = llm.chat(messages, GREEDY)
    [plain] = llm.generate(text, GREEDY)
    assert chat.prompt_token_ids == plain.prompt_token_ids
    assert chat.outputs[0].token_ids == plain.outputs[0].token_ids
    assert len(llm.chat([messages, messages], GREEDY)) == 2


def test_each_prompt_may_have_parameters_of_its_own(llm: LLM) -> None:
    params = [SamplingParams(max_tokens=n, ignore_eos=True) for n in (1, 5)]
    outputs = llm.generate(["The", "The"], params)
    assert [len(output.outputs[0].token_ids) for output in outputs] == [1, 5]
    with pytest.raises(ConfigError, match="2 prompts were given, but 1 sampling parameters"):
        llm.generate(["The", "The"], params[:1])


def test_choices_of_a_seed_differ_among_themselves_and_repeat(llm: LLM) -> None:
    params = SamplingParams(n=3, seed=7, max_tokens=12, ignore_eos=True)
    [first], [second] = llm.generate("The", params), llm.generate("The", params)
    answers = [tuple(answer.token_ids) for answer in first.outputs]
    assert len(set(answers)) == 3
    assert answers == [tuple(answer.token_ids) for answer in second.outputs]


def test_logprobs_are_reported_per_token(llm: LLM) -> None:
    params = SamplingParams(temperature=0, max_tokens=4, logprobs=3, ignore_eos=True)
    [output] = llm.generate("The quick", params)
    [answer] = output.outputs
    assert answer.logprobs is not None
    assert [entry.chosen.token_id for entry in answer.logprobs] == answer.token_ids
    for entry in answer.logprobs:
        assert entry.rank == 1
        assert len(entry.top) == 3
        assert entry.top[0] == entry.chosen, "greedy takes the most likely token"
        assert entry.chosen.logprob < 0


def test_step_by_step_gives_what_generate_gives(llm: LLM) -> None:
    [expected] = llm.generate("The lazy dog", GREEDY)
    answer = llm.add("The lazy dog", GREEDY)
    pieces = []
    while not answer.finished:
        [delta] = llm.step()
        assert delta.generation is answer
        pieces.append(delta.text)
    assert "".join(pieces) == expected.outputs[0].text
    same = replace(expected.outputs[0], request_id=answer.request_id)
    assert answer.output().outputs == [same]


def test_an_aborted_generation_ends_with_the_next_step(llm: LLM) -> None:
    answer = llm.add("The lazy dog", SamplingParams(max_tokens=100, ignore_eos=True))
    llm.step()
    llm.abort(answer)
    llm.step()
    assert answer.finished
    assert answer.output().outputs[0].finish_reason == "abort"
    assert not llm.has_work
    assert llm.core.scheduler.kv.num_used == 0


def test_one_bad_prompt_leaves_nothing_running(llm: LLM) -> None:
    with pytest.raises(CapacityError, match="context of 256"):
        llm.generate(["The", list(range(2, 302))], SamplingParams(max_tokens=100))
    llm.step()  # brings the ends of what had been added
    assert not llm.has_work
    assert llm.core.scheduler.kv.num_used == 0


def test_closing_ends_what_is_open_and_writes_it_down(chat_model: Path) -> None:
    trace = MemoryTrace()
    llm = LLM(
        str(chat_model), trace=trace, dtype="float32", num_blocks=33, max_model_len=64, block_size=8
    )
    llm.generate("The quick brown fox", SamplingParams(max_tokens=3, ignore_eos=True))
    answer = llm.add("The lazy dog", SamplingParams(max_tokens=30, ignore_eos=True))
    llm.step()
    llm.close()
    llm.close()
    with pytest.raises(ConfigError, match="closed"):
        llm.generate("The quick brown fox")
    assert answer.finished
    codes = [end["code"] for end in trace.records(Kind.REQUEST_END)]
    assert codes == [Code.END_LENGTH, Code.ABORT_SHUTDOWN]
    assert len(trace.records(Kind.STEP, "core")) == 4
    assert trace.records(Kind.PROMPT)[0]["tail"] == llm.frontend.tokenizer.encode(
        "The quick brown fox"
    )
    names = {span.name for span in trace.spans()}
    assert {"text_completion tiny-chat", "queue", "prefill", "decode", "deliver"} <= names


def test_importing_the_engine_loads_no_torch_until_a_model_is_wanted() -> None:
    code = (
        "import sys, engine, engine.scheduler, engine.frontend, engine.server.run;"
        "from engine import SamplingParams, ConfigError;"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules;"
        "assert 'duckdb' not in sys.modules and 'opentelemetry.sdk' not in sys.modules;"
        "assert set(engine.__all__) == set(engine._HOMES);"
        "[getattr(engine, name) for name in engine.__all__];"
        "assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_an_unknown_name_is_an_attribute_error() -> None:
    import engine

    with pytest.raises(AttributeError, match="no attribute 'LLMM'"):
        engine.LLMM  # noqa: B018, the access is the test
