import pytest
from rich.cells import cell_len

from lessons.content import load_lessons
from workbench.learn_prose import inline, paragraphs


def plain(markdown: str, width: int) -> list[str]:
    return [line.plain for line in paragraphs(markdown, width)]


def test_latin_breaks_between_words_only() -> None:
    assert plain("one two\nthree four", 9) == ["one two", "three", "four"]
    assert plain("incomprehensible word", 9) == ["incomprehensible", "word"]


def test_chinese_breaks_between_characters_and_keeps_latin_words_whole() -> None:
    assert plain("第一个token之后", 8) == ["第一个", "token之", "后"]
    assert [cell_len(line) for line in plain("连续批处理不等人", 6)] == [6, 6, 4]


def test_no_line_begins_with_closing_punctuation() -> None:
    assert plain("一二三四，五六", 8) == ["一二三", "四，五六"]
    assert plain("一二三，四五", 6) == ["一二", "三，四", "五"]


def test_a_line_end_in_the_source_is_no_space_in_chinese() -> None:
    assert plain("一二，\n三四\n五 token\n六", 40) == ["一二，三四五 token 六"]


def test_paragraphs_stay_apart_and_formulas_as_they_are() -> None:
    assert plain("a b\n\n    x   =  y\n\nc", 40) == ["a b", "", "    x   =  y", "", "c"]


def test_marks_become_styles_and_leave_the_text() -> None:
    text = inline("a **bold** and *soft* `x * y`")
    assert text.plain == "a bold and soft x * y"
    assert [str(span.style) for span in text.spans] == ["bold", "italic", "bold"]


@pytest.mark.parametrize("width", [38, 78, 98])
def test_every_lesson_fits_and_loses_nothing(width: int) -> None:
    for lesson in load_lessons():
        for prose in lesson.prose.values():
            for part in (prose.hook, prose.idea, prose.explained, prose.kata):
                lines = plain(part, width)
                prosaic = [line for line in lines if not line.startswith("    ")]
                words = [word for line in prosaic for word in line.split()]
                longest = max(map(cell_len, words))
                assert all(cell_len(line) <= max(width, longest) for line in prosaic)
                kept = "".join("".join(lines).split())
                assert kept == "".join(inline(part.replace("\n", " ")).plain.split())
