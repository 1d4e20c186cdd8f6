import json
from datetime import UTC, date, datetime, timedelta

import pytest

from interview import spacing
from interview.errors import DrillError
from interview.progress import Progress, Review, load, progress_path, reset, save, to_json

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SCORES = {"mechanism": 3, "boundary": 4, "number": 0, "trade-off": 4, "version": 2}


def review(card: str = "concept/q02", share: float = 0.6, **changes) -> Review:
    values = {"at": NOW, "machine_share": share, "seconds": 42.0, "late": False, "scores": None}
    return Review(card=card, share=share, **(values | changes))


def test_what_was_saved_is_read_again(tmp_path):
    path = tmp_path / "new" / "drill.json"
    assert load(path) == Progress()
    progress = Progress(interview=date(2026, 12, 14))
    progress = progress.with_review(review(scores=SCORES)).with_review(review("numeric/kv", 1.0))
    save(path, progress)
    assert load(path) == progress
    assert [file.name for file in path.parent.iterdir()] == ["drill.json"]


def test_a_better_answer_comes_back_later():
    dates = []
    for share in (0.1, 0.5, 0.7, 1.0):
        progress = Progress().with_review(review(share=share))
        dates.append(spacing.due(progress.cards["concept/q02"]))
    assert dates == sorted(dates)
    assert dates[0] - NOW == timedelta(days=1)
    assert dates[-1] - NOW >= timedelta(days=7)


def test_a_late_answer_is_at_most_hard():
    on_time = Progress().with_review(review(share=1.0))
    late = Progress().with_review(review(share=1.0, late=True))
    hard = Progress().with_review(review(share=0.4))
    assert late.cards == hard.cards
    assert spacing.due(late.cards["concept/q02"]) < spacing.due(on_time.cards["concept/q02"])


def test_the_interview_date_shortens_the_way_back():
    progress = Progress(interview=NOW.date() + timedelta(days=4)).with_review(review(share=1.0))
    assert spacing.due(progress.cards["concept/q02"]) <= NOW + timedelta(days=4)


@pytest.mark.parametrize("days_ago", [0, 1, 30])
def test_an_interview_that_is_over_shortens_nothing(days_ago):
    over = Progress(interview=NOW.date() - timedelta(days=days_ago)).with_review(review(share=1.0))
    without = Progress().with_review(review(share=1.0))
    assert over.cards == without.cards
    assert spacing.due(over.cards["concept/q02"]) > NOW + timedelta(days=1)


def test_recall_falls_with_time():
    card = Progress().with_review(review()).cards["concept/q02"]
    chances = [spacing.recall(card, NOW + timedelta(days=days)) for days in (0, 5, 60)]
    assert chances[0] == 1
    assert chances == sorted(chances, reverse=True)
    assert chances[2] < spacing.STALE_BELOW


DAMAGED = [
    b"{",
    b"[]",
    b"{}",
    b"\xff\xfe",
    b'{"format": 1, "cards": {"a": {}}, "reviews": [], "interview": null}',
    b'{"format": 1, "cards": {}, "reviews": [{"card": "x"}], "interview": null}',
    b'{"format": 1, "cards": {}, "reviews": [], "interview": "soon"}',
    b'{"format": "one", "cards": {}, "reviews": [], "interview": null}',
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_kept_and_named(tmp_path, content):
    path = tmp_path / "drill.json"
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(DrillError, match=r"damaged.*drill reset") as error:
            load(path)
    copies = list(tmp_path.glob("drill.json.damaged-*"))
    assert len(copies) == 1
    assert str(copies[0]) in str(error.value)
    assert copies[0].read_bytes() == path.read_bytes() == content


@pytest.mark.parametrize(
    "change",
    [{"share": 3}, {"share": -1}, {"scores": {"mechanism": 9}}, {"scores": SCORES | {"number": 5}}],
)
def test_impossible_marks_are_damage(tmp_path, change):
    path = tmp_path / "drill.json"
    raw = to_json(Progress().with_review(review(scores=SCORES)))
    raw["reviews"][0].update(change)
    path.write_text(json.dumps(raw))
    with pytest.raises(DrillError, match="impossible"):
        load(path)


def test_a_newer_format_is_not_called_damage(tmp_path):
    path = tmp_path / "drill.json"
    path.write_text('{"format": 99}')
    with pytest.raises(DrillError, match="upgrade"):
        load(path)
    assert list(tmp_path.iterdir()) == [path]


def test_reset_moves_progress_aside(tmp_path):
    path = tmp_path / "drill.json"
    assert reset(path) is None
    save(path, Progress().with_review(review()))
    old = reset(path)
    assert load(path) == Progress()
    assert old is not None
    assert load(old).reviews == (review(),)


def test_a_path_that_is_no_folder_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DrillError, match="CUTAWAY_HOME"):
        save(tmp_path / "file" / "drill.json", Progress())


def test_where_progress_lies(monkeypatch, tmp_path):
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path / "home"))
    assert progress_path() == tmp_path / "home" / "drill.json"
    monkeypatch.delenv("CUTAWAY_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert progress_path() == tmp_path / "data" / "cutaway" / "drill.json"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert progress_path() == tmp_path / ".local" / "share" / "cutaway" / "drill.json"
