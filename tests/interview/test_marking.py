import pytest

from interview.marking import VERSION_POINTS, judge, mark
from interview.prose import is_prose, read
from interview.questions import DIMENSIONS, load_bank

BANK = load_bank()


def heard(question: str, answer: str) -> set[str]:
    return set(mark(BANK[question], answer).heard)


def mistakes(question: str, answer: str) -> set[str]:
    return set(mark(BANK[question], answer).mistakes)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("question", BANK.values(), ids=list(BANK))
def test_the_model_answers_make_every_point_and_no_mistake(question, language):
    answers = (question.short, question.medium, question.deep)
    marking = mark(question, "\n\n".join(answer.in_(language) for answer in answers))
    assert marking.missed == ()
    assert marking.mistakes == {}
    assert marking.share == 1


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("question", BANK.values(), ids=list(BANK))
def test_a_listed_misconception_is_caught_and_its_reply_is_not(question, language):
    for mistake in question.mistakes:
        assert mistake.id in mistakes(question.id, mistake.text.in_(language)), mistake.text
        assert mistake.id not in mistakes(question.id, mistake.reply.in_(language)), mistake.reply


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("question", BANK.values(), ids=list(BANK))
def test_an_echo_of_the_question_earns_nothing(question, language):
    marking = mark(question, question.question.in_(language))
    assert marking.share == 0
    assert marking.mistakes == {}


def test_a_denied_point_is_not_made():
    assert "table" in heard("q02", "KV lies in fixed blocks that a block table maps to any place.")
    assert "table" not in heard("q02", "KV does not lie in blocks and there is no block table.")
    assert "skips-prefill" in heard("q03", "前缀命中后就跳过这段 prefill。")
    assert "skips-prefill" not in heard("q03", "前缀命中后并不能省掉 prefill。")


def test_a_point_that_is_a_denial_needs_one():
    assert "not-decode" in heard("q03", "Decoding does not get any faster by it.")
    assert "not-decode" not in heard("q03", "Decoding gets faster by it.")
    assert "not-decode" in heard("q03", "decode 并不会变快。")


def test_a_denied_misconception_is_none():
    assert mistakes("q22", "With fp8 the speed doubles.") == {"doubles"}
    assert mistakes("q22", "With fp8 the speed does not double.") == set()
    assert (
        mistakes("q22", "It is a common mistake to think that with fp8 the speed doubles.") == set()
    )
    assert mistakes("q22", "用了 fp8 速度就会翻倍。") == {"doubles"}
    assert mistakes("q22", "用了 fp8 速度也不会翻倍。") == set()


def test_a_denial_does_not_reach_over_a_conjunction():
    answer = "Nobody is padded, because each row has its own length and its own position."
    assert "rows-independent" in heard("q33", answer)


def test_languages_may_be_mixed():
    assert "table" in heard("q02", "KV 按固定的 block 存放,用 block table 映射到任何位置。")


def test_a_number_counts_with_its_unit_and_within_its_tolerance():
    assert "mean-p99" in heard("q17", "At that rate the p99 is 2.3 seconds.")
    assert "mean-p99" not in heard("q17", "At that rate the p99 is 2.3 ms.")
    assert "mean-p99" not in heard("q17", "At that rate the p99 is 3.1 seconds.")


def test_version_honesty_is_heard_for_every_question():
    for question in ("q02", "q33"):
        assert "names-version" in heard(question, "In vLLM 0.33.0 that is so.")
        assert "names-version" in heard(question, "这是 SGLang 0.5.23 的做法。")
        assert "names-version" not in heard(question, "The p99 was 2.26 s there.")
        assert "says-how-known" in heard(
            question, "I read this in the source but have not tried it."
        )
        assert "says-how-known" in heard(question, "这一点我只读过源码,没有实测过。")


STUFFED = [
    (
        "q02",
        "固定大小的块、块表、不连续、按需分配、共享前缀、引用计数、计算量不变、最后一块、15 个 token、大块。",
    ),
    ("q04", "每一步调度,结束,离开,加入,最长的回答,填充,8 轮,5 轮,62.5%,ITL 尖峰,抢占,块用完。"),
    (
        "q09",
        "开环、到达、独立用户、闭环、固定客户端、等回答、自动降速、过载、队列无限、114.5 秒、测试时长。",
    ),
    (
        "q33",
        "每一步组批、各行独立、位置、长度、block 回池、谁都能用、预算、上限、2 轮、5 轮、prefill 拉长。",
    ),
    (
        "q22",
        "带宽 权重 字节减半 引擎无关 kernel 启动 采样 固定开销 大批 计算 1.52 倍 精度 误差 评估",
    ),
    (
        "q02",
        "It is about blocks and tables and pages and the sharing and the reference count and waste.",
    ),
    (
        "q02",
        "Paging is block table fixed size physical contiguous on demand reserve maximum length waste share.",
    ),
    (
        "q07",
        "hash chain of blocks, parent hash, radix tree of tokens, free queue LRU, unlocked leaves, full hit.",
    ),
    (
        "q03",
        "skip prefill of prefix, lower TTFT, match from the start, first difference, no decode gain, logits.",
    ),
    (
        "q23",
        "closed batch until the longest, no KV pool, no admission, no scheduler per step, 8 rounds vs 5.",
    ),
    (
        "q24",
        "positions 4 and 5 computed, logits of last position, X at position 6, KV of X in next step.",
    ),
]


@pytest.mark.parametrize(("question", "answer"), STUFFED)
def test_a_list_of_the_right_words_earns_nothing(question, answer):
    assert mark(BANK[question], answer).share <= 0.1


def test_a_sentence_with_an_enumeration_is_still_a_sentence():
    assert is_prose(
        "the engine needs a scheduler, a block pool, a tokenizer, an api and a way to stop."
    )
    assert is_prose("要记录引擎、驱动、模型文件的版本,因为换了任何一个结果都会变。")
    assert not is_prose("scheduler, block pool, tokenizer, api, stop")


def test_sentences_do_not_end_inside_a_number():
    sentences = read("At 0.33.0 it is so. The mean is 2.26 s.")
    assert [sentence.text for sentence in sentences] == [
        "at 0.33.0 it is so.",
        "the mean is 2.26 s.",
    ]


def test_scores_count_points_per_dimension():
    question = BANK["q02"]
    none = judge(question, {}, {})
    assert set(none.scores) == set(DIMENSIONS)
    assert none.share == 0
    every = dict.fromkeys([p.id for p in question.points] + [p.id for p in VERSION_POINTS], "")
    assert set(judge(question, every, {}).scores.values()) == {4}
    assert judge(question, {"table": ""}, {}).scores["mechanism"] == 1
    assert judge(question, every, {"swap": ""}).scores["mechanism"] == 2


def test_the_weakest_dimension_is_asked_about_next():
    question = BANK["q02"]
    some = judge(question, {"table": "", "on-demand": "", "sharing": "", "not-arithmetic": ""}, {})
    assert some.weakest == "number"


def test_silence_scores_nothing():
    for answer in ("", "\n\n", "..."):
        assert mark(BANK["q02"], answer).share == 0


def test_marking_twice_gives_the_same():
    answer = BANK["q04"].medium.en
    assert mark(BANK["q04"], answer) == mark(BANK["q04"], answer)
