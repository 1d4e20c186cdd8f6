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


@pytest.mark.parametrize(
    ("question", "point", "right", "wrong"),
    [
        (
            "q02",
            "sharing",
            "Two tables may refer to one page, so common prefixes need only one copy.",
            "Two tables never refer to one page.",
        ),
        (
            "q02",
            "tail",
            "You lose at most part of one page per sequence, 15 tokens out of 16.",
            "You lose one of 16 tokens.",
        ),
        (
            "q14",
            "bounded-claim",
            "Tell me the version, card, model, workload and metric first.",
            "Version, card, model, workload, metric.",
        ),
        (
            "q14",
            "bounded-claim",
            "先告诉我版本、显卡、模型、负载和指标。",
            "版本、显卡、模型、负载。",
        ),
        (
            "q17",
            "mean-p99",
            "99 requests at 50 ms and one at 5 s: the mean is 100 ms, the worst user waits 5 s.",
            "The mean is 100 ms.",
        ),
        (
            "q22",
            "fixed-part",
            "没到两倍是因为还有 kernel 启动、读 KV、采样这些不会变小的固定开销。",
            "kernel 启动和采样也跟着变小。",
        ),
        (
            "q22",
            "fixed-part",
            "Kernel launches and sampling do not shrink.",
            "Kernel launches and sampling shrink as well.",
        ),
        (
            "q10",
            "cache-warm",
            "A hit rate of 99 % makes me look whether the prompts were repeated.",
            "A hit rate of 99 % simply shows that the cache is excellent.",
        ),
        (
            "q05",
            "lock-in",
            "要用它的前端语言，迁移就难了。",
            "只要用了 SGLang 的前端语言，任何程序都会变快。",
        ),
        ("q18", "noise", "一次运行看不出噪声有多大。", "跑一次就能说明问题，噪声可以忽略。"),
        (
            "q18",
            "noise",
            "一次运行没有误差范围，差一点可能只是噪声。",
            "取最好的一次成绩，因为其他几次只是有噪声。",
        ),
    ],
)
def test_a_point_is_heard_in_other_words_and_not_in_its_opposite(question, point, right, wrong):
    assert point in heard(question, right)
    assert point not in heard(question, wrong)


@pytest.mark.parametrize(
    ("warning", "advice"),
    [
        (
            "If you test a public service closed loop, the clients slow down, so overload never shows.",
            "For a public service use a closed loop.",
        ),
        (
            "In a closed loop, a public service looks healthier than it is.",
            "A closed loop fits the public internet.",
        ),
        (
            "Load-testing a public API with a closed loop is the classic way to fool yourself.",
            "Closed loop for the public, open loop for batch workers.",
        ),
        (
            "Many teams use a closed loop for their public API and then wonder why production is slow.",
            "Many teams use a closed loop for their public API, and so do I.",
        ),
        ("很多人用闭环测公众服务，上线后才发现延迟高得多。", "公众用户适合闭环。"),
        ("用闭环压测面向公众的服务，会把过载掩盖掉。", "面向公众的服务用闭环，批处理用开环。"),
        ("批处理任务用开环去压，会把队列堆积到没有意义。", "离线任务应该用开环。"),
    ],
)
def test_who_warns_of_the_wrong_loop_is_not_who_recommends_it(warning, advice):
    assert mistakes("q09", warning) == set()
    assert mistakes("q09", advice) == {"swapped"}


def test_what_a_mix_up_does_not_touch_is_still_earned():
    mixed = BANK["q09"].short.en.replace("Open", "Closed", 1)
    right = "Beyond capacity an open result depends on the duration of the test."
    assert "duration" in heard("q09", f"A closed loop fits the public internet. {right}")
    assert mistakes("q09", mixed) == {"swapped"}


@pytest.mark.parametrize(
    "answer",
    [
        "Dividing by the peak throughput would be naive, since the queue explodes there.",
        "A common error is to divide by peak throughput; do not do that.",
        "Divide by the peak throughput. No, do not do that!",
        "Divide by the peak throughput? Don't do that.",
        "People divide by the peak throughput, and then the queue explodes.",
        "按峰值吞吐来除太天真了。",
        "按峰值吞吐来除。千万别这么做。",
        "Take the peak request rate and divide it by the goodput of one card.",
        "Autoscaling cannot absorb a burst of seconds.",
        "自动扩容吸收不了几秒的突发。",
    ],
)
def test_a_mistake_that_is_advised_against_is_none(answer):
    assert mistakes("q11", answer) == set()


def test_advice_against_it_may_be_denied():
    assert mistakes("q11", "It is not naive to divide by the peak throughput.") == {
        "peak-is-capacity"
    }


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
