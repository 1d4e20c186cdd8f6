"""The progress file: whole or not at all, never overwritten where it cannot be read."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from lessons.errors import LessonError
from lessons.progress import (
    Answer,
    Progress,
    home_folder,
    load,
    now,
    progress_path,
    reset,
    save,
    to_json,
)

RIGHT = Answer("q1", 16.0, 0.9, True, now())
WRONG = Answer("q2", "b", 0.8, False, now())


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "learn.json"
    progress = Progress().with_answers(12, [RIGHT, WRONG], tmp_path / "run").with_check(12)
    save(path, progress)
    assert load(path) == progress
    assert [entry.name for entry in path.parent.iterdir()] == ["learn.json"]


def test_a_lesson_is_done_when_predicted_and_checked() -> None:
    progress = Progress()
    assert progress.of(12).state == "new"
    progress = progress.with_answers(12, [WRONG], Path("/run"))
    assert progress.of(12).state == "predicted"
    progress = progress.with_check(12)
    assert progress.of(12).state == "done"
    assert progress.of(11).state == "new"
    first = progress.of(12).checked
    assert progress.with_check(12).of(12).checked == first


def test_only_the_first_answer_counts_for_calibration() -> None:
    progress = Progress().with_answers(12, [WRONG], Path("/run"))
    again = replace(WRONG, sure=1.0, right=True)
    progress = progress.with_answers(12, [again, RIGHT], Path("/run2"))
    assert progress.calibration == pytest.approx((0.8**2 + 0.1**2) / 2)
    assert len(progress.of(12).answers) == 3
    assert progress.of(12).run == "/run2"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"format": 1}',
        '{"format": 1, "lessons": {"x": {}}}',
        '{"format": 1, "lessons": {"12": {"answers": [{"id": 1}]}}}',
        json.dumps({"format": 1, "lessons": {"12": {"answers": [{**asdict(RIGHT), "sure": 7}]}}}),
    ],
)
def test_a_damaged_file_is_kept_and_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "learn.json"
    path.write_text(content)
    for _ in range(2):
        with pytest.raises(LessonError, match=r"damaged.*learn --reset"):
            load(path)
    assert path.read_text() == content
    (copy,) = tmp_path.glob("learn.json.damaged-*")
    assert copy.read_text() == content


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "learn.json"
    path.write_text('{"format": 2, "lessons": 3}')
    with pytest.raises(LessonError, match="format 2"):
        load(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["learn.json"]


def test_an_unwritable_place_is_said(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(LessonError, match="CUTAWAY_HOME"):
        save(blocked / "learn.json", Progress())


def test_reset_moves_the_file_aside(tmp_path: Path) -> None:
    path = tmp_path / "learn.json"
    assert reset(path) is None
    save(path, Progress().with_answers(1, [RIGHT], tmp_path))
    old = reset(path)
    assert old is not None
    assert load(path) == Progress()
    assert load(old).of(1).answers == (RIGHT,)


def test_the_export_is_what_is_stored(tmp_path: Path) -> None:
    progress = Progress().with_answers(12, [RIGHT], tmp_path).with_kata(12)
    save(tmp_path / "learn.json", progress)
    assert json.loads((tmp_path / "learn.json").read_text()) == json.loads(
        json.dumps(to_json(progress))
    )


@pytest.mark.parametrize(
    ("variables", "home"),
    [
        ({"CUTAWAY_HOME": "/a", "XDG_DATA_HOME": "/b"}, "/a"),
        ({"XDG_DATA_HOME": "/b"}, "/b/cutaway"),
        ({"HOME": "/c"}, "/c/.local/share/cutaway"),
    ],
)
def test_where_it_lies(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], home: str
) -> None:
    for name in ("CUTAWAY_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(home_folder()) == home
    assert progress_path() == Path(home) / "learn.json"
