import random

import pytest

from engine.text.stop_strings import StopStrings


def run(stop: list[str], pieces: list[str], include: bool = False) -> tuple[str, int | None]:
    finder = StopStrings(stop, include_in_output=include)
    shown = "".join(finder.feed(piece) for piece in pieces)
    return shown + finder.flush(), finder.found


def test_a_stop_string_over_piece_borders_ends_the_text() -> None:
    assert run(["STOP"], ["go ", "on S", "T", "OP and", " more"]) == ("go on ", 0)
    assert run(["STOP"], ["go ", "on S", "T", "OP and"], include=True) == ("go on STOP", 0)


def test_text_is_held_back_only_while_it_could_be_a_stop_string() -> None:
    finder = StopStrings(["END", "NDX"])
    assert finder.feed("the E") == "the "
    assert finder.feed("N") == ""
    assert finder.feed("ough") == "ENough"
    assert finder.feed("x N") == "x "
    assert finder.flush() == "N"
    assert finder.found is None


def test_without_stop_strings_everything_passes() -> None:
    assert run([], ["a", "b"]) == ("ab", None)


def test_nothing_comes_out_after_the_stop() -> None:
    finder = StopStrings(["."])
    assert finder.feed("one. two") == "one"
    assert finder.feed("three.") == ""
    assert finder.flush() == ""
    assert finder.found == 0


@pytest.mark.parametrize("include", [False, True])
def test_the_result_does_not_depend_on_how_the_text_is_cut(include: bool) -> None:
    rng = random.Random(4)
    num_found = 0
    for _ in range(2000):
        text = "".join(rng.choice("ab") for _ in range(rng.randrange(1, 20)))
        stop = ["".join(rng.choice("ab") for _ in range(rng.randrange(1, 6))) for _ in range(2)]
        cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(5)))
        pieces = [text[i:j] for i, j in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        by_character = run(stop, list(text), include)
        assert run(stop, pieces, include) == by_character
        assert run(stop, [text], include) == by_character
        shown, found = by_character
        num_found += found is not None
        if found is None:
            assert shown == text
            assert not any(s in text for s in stop)
        else:
            end = min(text.find(s) + len(s) for s in stop if s in text)
            assert shown == (text[:end] if include else text[: end - len(stop[found])])
    assert num_found > 500
