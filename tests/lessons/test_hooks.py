"""What is read before a prediction: a number that was measured, and nothing that is to be predicted."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tracing
from lessons.content import Lesson, find_lesson, load_lessons
from lessons.grading import LETTERS
from lessons.runner import run_experiment
from lessons.text import LANGUAGES, Language
from tests.lessons.test_lessons import TRUTHS
from tracing.reader import Run

LESSONS = load_lessons()
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.name for lesson in LESSONS])

EN_WORDS = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    *("nineteen", "twenty"),
]
EN_NUMBER = re.compile(
    rf"(?<![\w.])(?:\d[\d,]*(?:\.\d+)?|{'|'.join(EN_WORDS)})(?!\w)", re.IGNORECASE
)
ZH_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?|[零一二两三四五六七八九十百]+")
ZH_DIGITS = "零一二三四五六七八九"

MEASURED = {
    1: ("257", "SELECT round((config->>'$.ledger.weights')::DOUBLE / 1048576) FROM run"),
    3: ("257", "SELECT round((config->>'$.ledger.weights')::DOUBLE / 1048576) FROM run"),
    4: (
        "90",
        "SELECT count(*) FROM kernel k JOIN step_request s USING (engine_id, step)"
        " JOIN dict d ON d.kind = 'kernel' AND d.id = k.kernel_id AND d.text = 'kv_write'"
        " WHERE s.request_id & 15 = 2",
    ),
    6: ("13 10", "SELECT sum(num_rows) FROM step GROUP BY engine_id ORDER BY engine_id"),
    9: (
        "2,100",
        "SELECT sum(num_scheduled_tokens) FROM step_request WHERE engine_id = 1 AND request_id & 15 > 1",
    ),
    11: (
        "15",
        "SELECT max(step - before) - 1 FROM (SELECT step, lag(step) OVER (ORDER BY step) AS before"
        " FROM token WHERE engine_id = 0 AND request_id & 15 = 3)",
    ),
    12: (
        "238 62",
        "SELECT unnest([sum(num_tokens), sum(num_scheduled_tokens)]) FROM step_request"
        " WHERE request_id & 1 = 0",
    ),
}
"""Numbers of a hook and the query that gives them; lesson 7's is of a paper, which it names."""
OF_ANY_MODEL = (6, 9, 11, 12)


def numbers_in(text: str, language: Language) -> set[float]:
    """Numbers of a text, in digits or in words."""
    pattern = EN_NUMBER if language == "en" else ZH_NUMBER
    return {number(found[0].lower()) for found in pattern.finditer(text)}


def number(word: str) -> float:
    if word[0].isdigit():
        return float(word.replace(",", ""))
    return float(EN_WORDS.index(word)) if word in EN_WORDS else chinese_number(word)


def chinese_number(word: str) -> float:
    """Up to 999: 八, 十六, 二十五, 一百四十."""
    total, digit = 0, 0
    for char in word.replace("两", "二"):
        if char in ZH_DIGITS:
            digit = ZH_DIGITS.index(char)
        else:
            total, digit = total + max(1, digit) * {"十": 10, "百": 100}[char], 0
    return float(total + digit)


def test_numbers_are_found_in_digits_and_in_words() -> None:
    english = (
        "A pool of 2,896 tokens, 22.5 KiB each: Eight of them, sixteen, none someone's. 31.25 %."
    )
    assert numbers_in(english, "en") == {2896, 22.5, 8, 16, 31.25}
    chinese = "池有 2,896 个 token，每个 22.5 KiB；八个，两块，十六步，一百四十步。"
    assert numbers_in(chinese, "zh") == {2896, 22.5, 8, 2, 16, 140}


def given_away(lesson: Lesson, language: Language, told: str) -> list[str]:
    """Questions whose answer stands in a text: its number, or a clause of the right option."""
    numbers, found = numbers_in(told, language), list[str]()
    for prediction in lesson.predictions:
        truth = TRUTHS[lesson.number][prediction.id]
        if isinstance(truth, str):
            right = prediction.options[LETTERS.index(truth)].in_(language).lower()
            clauses = [
                re.sub("^(in )?(the )?", "", part.strip()) for part in re.split("[,:，：]", right)
            ]
            hit = any(clause in told.lower() for clause in clauses)
        else:
            hit = any(abs(n - truth) <= prediction.within * truth for n in numbers)
        found += [prediction.id] * hit
    return found


@each_lesson
def test_nothing_that_is_asked_is_told_before(lesson: Lesson) -> None:
    for language in LANGUAGES:
        prose = lesson.prose[language]
        told = f"{prose.title}\n{prose.hook}\n{prose.idea}"
        assert given_away(lesson, language, told) == [], language


@pytest.mark.parametrize(
    ("number", "language", "told", "asked"),
    [
        (1, "en", "The last of them waits 140 steps for a first token.", "last_first_token"),
        (3, "zh", "每读入一个 token 就要 22.5 KiB 内存。", "per_token"),
        (4, "en", "It is the input of the next step.", "when_x"),
        (4, "zh", "它是下一步的输入。", "when_x"),
        (6, "en", "They take eight steps in one engine.", "static_rounds"),
        (7, "zh", "其中 31 % 写过。", "share"),
        (11, "en", "The last admitted sequence gives up *all* of its blocks.", "victim"),
        (12, "zh", "引擎重算了其中十六个。", "one_block_short"),
    ],
)
def test_what_gives_an_answer_away_is_seen(
    number: int, language: Language, told: str, asked: str
) -> None:
    assert given_away(find_lesson(str(number)), language, told) == [asked]


@each_lesson
def test_a_hook_has_the_same_number_in_both_languages(lesson: Lesson) -> None:
    digits = [set(re.findall(r"\d[\d,.]*\d|\d", lesson.prose[lang].hook)) for lang in LANGUAGES]
    assert digits[0]
    assert digits[0] == digits[1]


def check_measured(lesson: Lesson, run: Run) -> None:
    said, query = MEASURED[lesson.number]
    assert [f"{int(row[0]):,}" for row in run.sql(query).rows] == said.split()
    for language in LANGUAGES:
        hook = lesson.prose[language].hook
        assert all(re.search(rf"(?<!\d){number}(?!\d)", hook) for number in said.split())


@pytest.mark.parametrize("n", OF_ANY_MODEL)
def test_the_number_of_a_hook_is_the_runs(n: int, opened: Callable[..., Run]) -> None:
    check_measured(find_lesson(str(n)), opened(n))


@pytest.mark.slow
@pytest.mark.parametrize("n", sorted(set(MEASURED) - set(OF_ANY_MODEL)))
def test_the_number_of_a_hook_is_the_real_models(n: int, smollm2: Path, tmp_path: Path) -> None:
    assert smollm2.is_dir()
    run_experiment(find_lesson(str(n)), tmp_path / "run")
    run = tracing.open_run(tmp_path / "run")
    try:
        check_measured(find_lesson(str(n)), run)
    finally:
        run.close()
