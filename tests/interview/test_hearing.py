"""Right answers are not accused, wrong ones are, in whatever words and whichever way names are exchanged."""

import re
import tomllib
from pathlib import Path

import pytest

from interview.hearing import holds
from interview.marking import mark
from interview.prose import read
from interview.questions import DIMENSIONS, load_bank, parse_pattern
from interview.subjects import runs

BANK = load_bank()
REWORDED = tomllib.loads((Path(__file__).parent / "reworded.toml").read_text())
QUESTIONS = pytest.mark.parametrize("question", BANK.values(), ids=list(BANK))
LANGUAGES = pytest.mark.parametrize("language", ["en", "zh"])


def heard(question: str, answer: str) -> set[str]:
    return set(mark(BANK[question], answer).heard)


def mistakes(question: str, answer: str) -> set[str]:
    return set(mark(BANK[question], answer).mistakes)


@LANGUAGES
@QUESTIONS
def test_the_bank_itself_is_never_accused(question, language):
    texts = [point.text for point in question.points]
    for text in [*texts, question.short, question.medium, question.deep]:
        assert mark(question, text.in_(language)).mistakes == {}, text


@QUESTIONS
def test_short_answers_get_equal_marks_in_both_languages(question):
    english, chinese = mark(question, question.short.en), mark(question, question.short.zh)
    for dimension in DIMENSIONS:
        assert abs(english.scores[dimension] - chinese.scores[dimension]) <= 1, dimension
    assert english.scores["number"] >= 1
    assert chinese.scores["number"] >= 1


@pytest.mark.parametrize("question", REWORDED)
def test_right_sentences_near_a_misconception_are_none(question):
    accused = {
        text: found for text in REWORDED[question]["right"] if (found := mistakes(question, text))
    }
    assert accused == {}


@pytest.mark.parametrize("question", REWORDED)
def test_misconceptions_in_other_words_are_caught(question):
    claims = REWORDED[question]["mistakes"]
    assert set(claims) == {mistake.id for mistake in BANK[question].mistakes}
    for id_, texts in claims.items():
        assert len(texts) >= 3
        missed = [text for text in texts if id_ not in mistakes(question, text)]
        assert missed == [], id_


def test_every_question_has_reworded_misconceptions():
    assert set(REWORDED) == set(BANK)


@pytest.mark.parametrize(
    "answer",
    [
        "It is not wrong to say paging makes attention faster.",
        "我同意这个说法：分页让注意力算得更快。",
        "Nothing is wrong with saying that paging makes attention faster.",
        "分页让注意力算得更快，这不是误解。",
    ],
)
def test_a_denied_refutation_claims_the_mistake(answer):
    assert mistakes("q02", answer) == {"faster-attention"}
    assert "not-arithmetic" not in heard("q02", answer)


@pytest.mark.parametrize(
    "answer",
    [
        "It is wrong to say that paging makes attention faster.",
        "分页让注意力算得更快，这种说法不对。",
        "我不同意分页让注意力算得更快。",
        "Paging makes attention faster. That is a myth.",
        "分页让注意力算得更快。这是误解。",
    ],
)
def test_a_mistake_that_is_called_so_is_none(answer):
    assert mistakes("q02", answer) == set()


EXCHANGES = {
    "q01": [("vLLM", "SGLang")],
    "q07": [("vLLM", "SGLang")],
    "q09": [("open", "closed"), ("开环", "闭环")],
}
BOUND = {
    "q01": {"index", "order", "unit"},
    "q07": {"hash-chain", "radix", "eviction", "full-hit", "unit-number"},
    "q09": {"open-def", "closed-def", "self-throttle", "who-sends", "latencies"},
}


def exchanged(text: str, pairs: list[tuple[str, str]]) -> str:
    """The text with both names of each pair in each other's place."""
    for a, b in pairs:
        other = {a.lower(): b, b.lower(): a}
        text = re.sub(f"{a}|{b}", lambda m, other=other: other[m.group().lower()], text, flags=re.I)
    return text


@LANGUAGES
@pytest.mark.parametrize("part", ["short", "medium"])
@pytest.mark.parametrize("id_", EXCHANGES)
def test_exchanged_names_earn_nothing_that_depends_on_them(id_, part, language):
    text = getattr(BANK[id_], part).in_(language)
    assert heard(id_, text) & BOUND[id_]
    wrong = exchanged(text, EXCHANGES[id_])
    assert wrong != text
    assert mistakes(id_, wrong) == {"swapped"}
    assert heard(id_, wrong) & BOUND[id_] == set()


@pytest.mark.parametrize(
    ("question", "point", "right", "wrong"),
    [
        ("q16", "p99-numbers", "At 4.5/s the p99 is 114.5 s.", "The p99 at 3/s is 114.5 s."),
        (
            "q16",
            "p99-numbers",
            "每秒 3 个时 p99 是 2.26 秒，4.5/s 时 114.5 秒。",
            "每秒 3 个时 p99 是 114.5 秒，4.5/s 时 2.26 秒。",
        ),
        ("q09", "latencies", "开环 4.5/s 的 p99 是 114.5 s。", "闭环 4.5/s 的 p99 是 114.5 s。"),
        ("q09", "latencies", "Open at 3/s the p99 is 2.26 s.", "Open at 3/s the p99 is 114.5 s."),
        (
            "q07",
            "unit-number",
            "Of 3,000 tokens vLLM reuses 2,992.",
            "vLLM reuses all 3,000, SGLang only 2,992.",
        ),
        ("q17", "mean-p99", "均值 0.64 s，p99 2.26 s。", "均值 2.26 s，p99 0.64 s。"),
        (
            "q04",
            "rounds",
            "Static batching takes 8 rounds, continuous batching 5 rounds.",
            "Static batching takes 5 rounds, continuous batching 8 rounds.",
        ),
        (
            "q22",
            "not-engine",
            "It is a property of model and hardware, not of the scheduler.",
            "It is a property of the scheduler, not of model and hardware.",
        ),
    ],
)
def test_a_figure_or_a_cause_belongs_to_its_subject(question, point, right, wrong):
    assert point in heard(question, right)
    assert point not in heard(question, wrong)


@pytest.mark.parametrize(
    ("question", "point", "answer"),
    [
        ("q11", "nine", "20/(4×0.7)=7.14，取整 8 张，再加 1 张备用，一共 9 张"),
        ("q04", "rounds", "8 轮变 5 轮"),
        ("q33", "waits-two", "Number: outputs 2, 5, 3 on two slots, 8 rounds become 5."),
        ("q24", "count", "6 − 4 = 2"),
    ],
)
def test_a_calculation_gives_its_number(question, point, answer):
    assert heard(question, answer) == {point}


def test_a_short_right_answer_is_not_cut():
    answer = "The block table maps; blocks are taken on demand."
    assert heard("q02", answer) == {"table", "on-demand"}
    assert {"short-no-hit", "both-have"} <= heard("q15", BANK["q15"].short.zh)


def said_of(text: str) -> dict[str, str]:
    subjects = {"vllm": ("vllm",), "sglang": ("sglang",)}
    found: dict[str, str] = {}
    for run in runs(read(text), subjects):
        words = " ".join(clause.text.strip() for clause in run.clauses)
        found[run.subject] = f"{found.get(run.subject, '')} {words}".strip()
    return found


@pytest.mark.parametrize(
    "text",
    [
        "vLLM keeps a chain while SGLang keeps a tree.",
        "The chain of vLLM and the tree of SGLang differ.",
        "A chain in vLLM, a tree in SGLang.",
        "vLLM has one thing, a chain. SGLang has another. It is a tree.",
        "I know vLLM and SGLang. The former keeps a chain, the latter a tree.",
    ],
)
def test_who_a_clause_speaks_of(text):
    said = said_of(text)
    assert "chain" in said["vllm"]
    assert "tree" not in said["vllm"]
    assert "tree" in said["sglang"]
    assert "chain" not in said["sglang"]


def test_a_name_that_is_only_compared_with_carries_nothing_on():
    assert "tree" not in said_of("Unlike vLLM, it walks a tree.").get("vllm", "")


def test_a_group_may_ask_for_absence():
    (sentence,) = read("It is a tree of tokens.")
    assert holds(parse_pattern("tree & -hash"), sentence.clauses)
    assert not holds(parse_pattern("tree & -hash|tokens"), sentence.clauses)
