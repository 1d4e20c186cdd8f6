"""The files of every lesson: complete, in both languages, and refused with a name where they are not."""

import re
import shutil
import tomllib
from datetime import date
from importlib.resources import files
from pathlib import Path
from string import Formatter

import pytest

from lessons.content import Lesson, find_lesson, load_lessons, read_checks, read_lesson
from lessons.errors import LessonError
from lessons.grading import brier, plain_number, read_answer, read_confidence
from lessons.text import LANGUAGES, Text

LESSONS = load_lessons()
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=[lesson.name for lesson in LESSONS])
HAN = re.compile(r"[\u4e00-\u9fff]")


def texts(lesson: Lesson) -> list[Text]:
    """All sentences of a lesson that come in pairs, but the prose."""
    found = [lesson.wrong, lesson.picture.axis, lesson.picture.caption]
    for prediction in lesson.predictions:
        found += [prediction.ask, *prediction.options]
    found += [stop.text for stop in lesson.stops]
    found += [text for check in lesson.checks for text in (check.claim, check.but)]
    found += [text for asked in lesson.follow_ups for text in (asked.ask, asked.answer)]
    return found + [note.text for note in lesson.upstream]


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_the_eight_lessons_are_there_in_order() -> None:
    assert [lesson.number for lesson in LESSONS] == [1, 3, 4, 6, 7, 9, 11, 12]


@each_lesson
def test_both_languages_say_the_same_number_of_things(lesson: Lesson) -> None:
    for text in texts(lesson):
        assert text.en.strip()
        assert not HAN.search(text.en), text.en
        assert HAN.search(text.zh) or not re.search("[a-z]{4}", text.en), text.zh
        assert placeholders(text.en) == placeholders(text.zh), text.en


@each_lesson
def test_prose_is_short_and_in_its_language(lesson: Lesson) -> None:
    en, zh = (lesson.prose[language] for language in LANGUAGES)
    assert len(en.idea.split()) <= 150
    assert len(HAN.findall(zh.idea)) <= 260
    for name in ("title", "hook", "idea", "explained", "kata"):
        assert not HAN.search(getattr(en, name))
        assert HAN.search(getattr(zh, name))
    # The same code words in both: function names, formulas.
    assert set(re.findall(r"`([^`]+)`", en.kata)) == set(re.findall(r"`([^`]+)`", zh.kata))


@each_lesson
def test_a_lesson_has_all_its_parts(lesson: Lesson) -> None:
    assert len(lesson.predictions) == 3
    assert len({prediction.id for prediction in lesson.predictions}) == 3
    assert len(lesson.stops) >= 3
    assert len(lesson.checks) >= 4
    assert len(lesson.follow_ups) == 2
    assert {note.system for note in lesson.upstream} == {"vLLM", "SGLang"}
    for note in lesson.upstream:
        assert note.version in {"0.33.0", "0.5.23"}
        assert isinstance(note.date, date)
    names = {path.name for path in lesson.folder.iterdir() if path.name != "__pycache__"}
    assert names == {
        *("lesson.toml", "lesson.md", "lesson.zh.md", "experiment.py", "checks.sql"),
        *("kata.py", "kata_oracle.py", "picture.json", "picture.svg", "picture.zh.svg"),
    }
    for language, suffix in (("en", ""), ("zh", ".zh")):
        page = (lesson.folder / f"lesson{suffix}.md").read_text(encoding="utf-8")
        assert f"(picture{suffix}.svg)" in page, language


@each_lesson
def test_the_stub_asks_for_what_the_oracle_answers(lesson: Lesson) -> None:
    stub = (lesson.folder / "kata.py").read_text()
    oracle = (lesson.folder / "kata_oracle.py").read_text()
    signature = re.search(r"^def \w+\([^)]*\) -> .*:\n", stub, re.MULTILINE)
    assert signature is not None
    assert signature[0] in oracle
    assert stub.rstrip().endswith("raise NotImplementedError")


def test_the_words_are_complete_and_all_used() -> None:
    words = tomllib.loads((files("lessons") / "words.toml").read_text(encoding="utf-8"))
    root = Path(str(files("lessons"))).parent
    sources = "\n".join(
        path.read_text()
        for folder in ("lessons", "workbench")
        for path in (root / folder).glob("*.py")
    )
    for key, entry in words.items():
        assert set(entry) == set(LANGUAGES), key
        assert placeholders(entry["en"]) == placeholders(entry["zh"]), key
        built = key.startswith(("kind_", "lane_", "state_"))
        assert not WORDS.search(entry["zh"]), key
        assert built or re.search(f"[\"']{key}[\"']", sources), f"nothing says {key}"


@pytest.mark.parametrize("text", ["12", "012", "block_hash_chain", "12_block_hash_chain"])
def test_a_lesson_is_found_by_number_or_topic(text: str) -> None:
    assert find_lesson(text).number == 12


def test_an_unknown_lesson_lists_what_there_is() -> None:
    with pytest.raises(LessonError, match="12 block_hash_chain"):
        find_lesson("2")


@pytest.mark.parametrize(
    ("name", "spoil", "said"),
    [
        ("lesson.toml", lambda text: text.replace("minutes", "hours"), "minutes"),
        ("lesson.toml", lambda text: text.replace("ask.zh", "ask.de", 1), "lesson.toml"),
        ("lesson.toml", lambda text: text + "[[", "lesson.toml"),
        ("lesson.md", lambda text: text.replace("## Kata", "## Exercise"), "Idea, Explained, Kata"),
        ("lesson.zh.md", lambda text: text.replace("## 解释", "解释"), "lesson.zh.md"),
        ("checks.sql", lambda text: text.replace("-- zh but", "-- zh"), "checks.sql"),
        ("checks.sql", lambda text: "", "checks.sql"),
    ],
)
def test_an_incomplete_file_is_named(tmp_path: Path, name: str, spoil, said: str) -> None:
    folder = tmp_path / "12_spoilt"
    shutil.copytree(find_lesson("12").folder, folder)
    path = folder / name
    path.write_text(spoil(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(LessonError, match=said):
        read_lesson(folder)


@pytest.mark.parametrize("name", ["lesson.toml", "lesson.zh.md", "checks.sql"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "12_spoilt"
    shutil.copytree(find_lesson("12").folder, folder)
    (folder / name).unlink()
    with pytest.raises(LessonError, match=re.escape(name)):
        read_lesson(folder)


def test_checks_keep_comments_out_of_the_query(tmp_path: Path) -> None:
    path = tmp_path / "checks.sql"
    lines = ["-- Two claims.", ""]
    for n in (1, 2):
        lines += [f"-- check: c{n}", "-- en: a", "-- zh: 甲", "-- en but: b", "-- zh but: 乙"]
        lines += [f"SELECT {n}", "WHERE false;", ""]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert [check.query for check in read_checks(path)] == [
        "SELECT 1\nWHERE false",
        "SELECT 2\nWHERE false",
    ]


def test_answers_are_read_as_people_type_them() -> None:
    number, choice = (find_lesson("12").predictions[i] for i in (0, 2))
    typed = ("16", " 1,024 tokens", "1 token", "16个 token", "16 token", "-3", "1_024", ".5", "16.")
    assert [read_answer(number, line) for line in typed] == [
        *(16, 1024, 1, 16, 16, -3, 1024, 0.5, 16)
    ]
    assert [read_answer(number, line) for line in ("16 个", "16 个tokens")] == [16, 16]
    per_token, _, share = (*find_lesson("3").predictions[:2], find_lesson("7").predictions[2])
    assert read_answer(per_token, "22.5KiB") == 22.5
    assert [read_answer(share, line) for line in ("31 %", "31％", "31 percent")] == [31, 31, 31]
    blocks = find_lesson("3").predictions[2]
    typed = ("10 块", "10 个块", "10 blocks", "10个")
    assert [read_answer(blocks, line) for line in typed] == [10, 10, 10, 10]
    assert read_answer(per_token, "22.5 个") is None
    assert read_answer(choice, "C ") == "c"
    assert read_answer(choice, "e") is None
    assert read_answer(choice, "") is None


@pytest.mark.parametrize(
    "line",
    ["", "many", "8k", "1e3", "16 KiB", "16 or 32", "1,5", "10,24", "1.024.0", "16 tokens?", "nan"],
)
def test_a_number_that_is_not_understood_whole_is_asked_again(line: str) -> None:
    assert read_answer(find_lesson("12").predictions[0], line) is None


def test_confidence_is_a_percentage() -> None:
    typed = ("", " ", "0", "70", "70 %", "70％", "100", "99.5%", "0.7", "1")
    assert [read_confidence(line) for line in typed] == [
        *(50, 50, 0, 70, 70, 70, 100, 99.5, 0.7, 1)
    ]
    for line in ("101", "-1", "sure", "1e1", "nan", "70 of 100", "%"):
        assert read_confidence(line) is None


WORDS = re.compile("提示|预填充|内核|(?<!投机)解码")
"""What engineers call prompt, prefill, kernel and decode in Chinese, too."""


@each_lesson
def test_chinese_says_prompt_prefill_decode_and_kernel(lesson: Lesson) -> None:
    prose = lesson.prose["zh"]
    told = [prose.title, prose.hook, prose.idea, prose.explained, prose.kata]
    told += [text.zh for text in texts(lesson)]
    told.append((lesson.folder / "picture.zh.svg").read_text(encoding="utf-8"))
    for text in told:
        assert not WORDS.search(text.replace("（分块预填充）", "")), text
        # A Latin word stands apart from Chinese characters.
        assert not re.search(
            r"[一-鿿](prompt|prefill|decode|kernel)|(prompt|prefill|decode|kernel)[一-鿿]", text
        ), text


def test_numbers_are_shown_as_people_read_them() -> None:
    shown = [plain_number(n) for n in (0, 2896, 22.5, 0.6912, -3)]
    assert shown == ["0", "2,896", "22.5", "0.69", "-3"]


def test_the_brier_score_rewards_honest_doubt() -> None:
    assert brier([]) is None
    assert brier([(1.0, True), (0.0, False)]) == 0
    assert brier([(0.5, True), (0.5, False)]) == 0.25
    assert brier([(1.0, False)]) == 1
