"""The bank is complete, in both languages, and what it claims can be looked up or computed again."""

import re
import string
from importlib.resources import files
from pathlib import Path

import pytest

from interview.deck import deck
from interview.marking import VERSION_POINTS
from interview.numbers import EXAMPLES
from interview.numbers.worked import results
from interview.phrases import phrases
from interview.quantities import agree, quantities
from interview.questions import DIMENSIONS, RUNGS, TOPICS, Question, load_bank
from interview.text import Text

BANK = load_bank()
ROOT = Path(__file__).parents[2]
HAN = re.compile(r"[\u4e00-\u9fff]")
QUESTIONS = pytest.mark.parametrize("question", BANK.values(), ids=list(BANK))


def texts_of(question: Question) -> list[Text]:
    q = question
    points = [t for p in q.points for t in [p.text]]
    mistakes = [t for m in q.mistakes for t in (m.text, m.reply)]
    answers = [q.title, q.question, q.short, q.medium, q.deep]
    return [*answers, *points, *mistakes, *q.follow_ups.values()]


def test_the_twenty_questions_are_there():
    numbers = [*range(1, 12), *range(14, 19), 22, 23, 24, 33]
    assert list(BANK) == [f"q{n:02}" for n in numbers]
    assert {q.rung for q in BANK.values()} == set(RUNGS)
    assert {q.level for q in BANK.values()} == {1, 2, 3}


@QUESTIONS
def test_both_languages_are_complete(question):
    for text in texts_of(question):
        # An identifier or arithmetic may be the same in both; a sentence may not.
        if re.search(r"[a-z]{3,} [a-z]{2,}", text.en):
            assert HAN.search(text.zh), text
        assert not HAN.search(text.en), text


@QUESTIONS
def test_answers_have_the_length_that_they_are_for(question):
    words = len(question.short.en.split())
    assert 45 <= words <= 100, words
    assert 170 <= len(question.medium.en.split()) <= 420
    assert 60 <= len(question.deep.en.split()) <= 200
    for part in ("short", "medium", "deep"):
        text = getattr(question, part)
        size = len(HAN.findall(text.zh)) + 2 * len(re.findall(r"[A-Za-z0-9.]+", text.zh))
        assert 0.9 < size / len(text.en.split()) < 2.4, (part, size)


@QUESTIONS
def test_every_dimension_can_be_earned(question):
    assert {p.dimension for p in question.points} == set(DIMENSIONS) - {"version"}
    ids = [p.id for p in question.points] + [p.id for p in VERSION_POINTS]
    assert len(ids) == len(set(ids))
    assert len(question.mistakes) >= 2


@QUESTIONS
def test_sources_exist(question):
    assert question.sources
    for source in question.sources:
        if source.startswith("golden:"):
            assert (ROOT / "tests/golden" / f"{source.removeprefix('golden:')}.json").exists()
        elif command := re.search(r"`cutaway numbers ([\w-]+)", source):
            assert command.group(1) in EXAMPLES
    for query in question.queries:
        assert (files("tracing") / "sql" / f"{query}.sql").is_file(), query
    assert set(question.numbers) <= set(EXAMPLES)
    for lesson in question.lessons:
        assert list((ROOT / "lessons").glob(f"{lesson:02}_*")), lesson


@QUESTIONS
def test_upstream_claims_carry_a_version(question):
    stamp = rf"(vLLM {question.vllm}|SGLang {question.sglang}|transformers \d|\d{{4}}, |`cutaway)"
    for source in question.sources:
        assert re.search(stamp, source) or source.startswith(("golden:", "Published", "M/D/1")), (
            source
        )


FIGURES = [
    (q.id, point.id, figure)
    for q in BANK.values()
    for point in q.points
    for figure in point.figures
    if figure.example
]


@pytest.mark.parametrize(("question", "point", "figure"), FIGURES)
def test_a_figure_is_what_its_example_computes(question, point, figure):
    example = EXAMPLES[figure.example]
    worked = example.run(**(example.presets[figure.preset] if figure.preset else {}))
    line = next(line for line in worked if line.key == figure.key)
    computed = quantities(f"{results(worked)[line.key]:.6f} {line.unit}")[0]
    assert agree(computed, quantities(figure.value)[0], 0.005)


def test_most_questions_have_a_figure_that_is_computed():
    assert len({question for question, _, _ in FIGURES}) >= 16


def test_phrases_have_the_same_places_for_values():
    for key, text in phrases().items():
        names = [
            {name for _, name, _, _ in string.Formatter().parse(half) if name}
            for half in (text.en, text.zh)
        ]
        assert names[0] == names[1], key
        if re.search(r"[a-z]{3,} [a-z]{2,}", text.en):
            assert HAN.search(text.zh), key


def test_every_phrase_is_used():
    code = "".join(
        path.read_text()
        for folder in ("interview", "workbench")
        for path in (ROOT / folder).rglob("*.py")
    )
    made = ("ask_", "kind_", "dimension_", "rung_", "plan_", "agreement_", "report_", "reader_")
    made += ("title_", "itl_", "waits_", "victim_", "miss_", "first_", "fault_")
    for key in phrases():
        assert key.startswith(made) or re.search(rf"[\"']{key}[\"']", code), key


def test_examples_and_inputs_are_named_in_both_languages():
    for example in EXAMPLES.values():
        for text in (example.title, example.moral):
            assert HAN.search(text.zh), text
        for param in example.params:
            assert param.text.zh, param
    assert all(HAN.search(topic.zh) for topic in TOPICS.values())


def test_every_topic_has_a_card():
    assert {card.topic for card in deck()} == set(TOPICS)


def test_nothing_in_the_bank_names_machines_or_people():
    words = re.compile(r"/work/|localhost|http://|https://|\bTODO\b|lorem", re.IGNORECASE)
    for question in BANK.values():
        for text in texts_of(question):
            assert not words.search(text.en + text.zh), text
