"""`cutaway learn`, as a person or a pipe uses it."""

import json
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lessons.content import Lesson, find_lesson, load_lessons
from lessons.progress import Answer, Progress, load, now, save
from lessons.runner import kata_path
from lessons.text import LANGUAGES, Language
from tests.lessons.conftest import RunOf, opened, run_of, smol_shaped  # noqa: F401 - fixtures
from tracing.runs import RUN_FILE
from workbench.learn import learn

LINES = "16\n90\nperhaps\n4.8e1\n48\n0.7\n70\nc\n\n\n"
"""Right answers to lesson 12, two lines that are no number, a share for a percentage, no word on the
last confidence, then: run."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A learner who has done nothing, outside any checkout."""
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "80")
    # The experiments' processes: matrices this small lose more by waking a second thread than they gain.
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def call(*args: str, text: str = "") -> Result:
    result = CliRunner().invoke(learn, list(args), input=text)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def with_run(home: Path, run: Path, number: int = 12) -> None:
    """Note that the learner predicted, wrongly, and made this run."""
    wrong = Answer("one_block_short", 31.0, 0.8, False, now())
    save(home / "learn.json", Progress().with_answers(number, [wrong], run))


def test_the_list_shows_every_lesson_and_how_far_one_is(home: Path) -> None:
    lines = call().output.splitlines()
    assert sum("○" in line and "new" in line for line in lines) == 8
    with_run(home, home / "gone")
    assert "◐  12" in call().output
    assert "calibration 0.64" in call().output
    assert "已预测" in call("--lang", "zh").output


def test_one_lesson_from_prediction_to_check(home: Path, chat_model: Path) -> None:
    said = call("12", "--model", str(chat_model), text=LINES + "\ns\n\n\n")
    assert said.exit_code == 0
    output = said.output
    parts = ("Idea", "Predict", "Run", "See", "Explained", "Kata", "Check", "In the real systems")
    places = [output.index(f" {part} ─") for part in parts]
    assert places == sorted(places)
    assert output.count("please give a number") == 2
    assert "0.7 % is nearly nothing; do you mean 70?" in output
    picture = find_lesson("12").picture.caption.en
    asked, shown = output[: output.index(" See ─")], output[output.index(" See ─") :]
    assert picture not in asked, "the picture tells what is asked"
    assert picture in shown
    assert "you said 48 tokens, 70 % sure" in output
    assert "not written yet" in output
    assert "all 4 claims hold" in output
    mine = load(home / "learn.json").of(12)
    assert mine.state == "done"
    assert [(a.value, a.sure, a.right) for a in mine.answers] == [
        (16.0, 0.9, True),
        (48.0, 0.7, True),
        ("c", 0.5, True),
    ]
    assert mine.run is not None
    assert (Path(mine.run) / RUN_FILE).exists()
    assert call("12", "--check").exit_code == 0
    read = call("12", "--read").output
    assert "Step 7: all 64 tokens" in read, "after success everything stays visible"
    assert "Explained" in read


def test_the_fast_track_explains_only_what_was_missed(home: Path, chat_model: Path) -> None:
    model = ("--model", str(chat_model))
    right = call("12", "--fast", *model, text=LINES).output
    assert "Idea" not in right
    assert "Explained ─" not in right
    assert "all 4 claims hold" in right
    missed = call("12", "--fast", *model, "--lang", "zh", text=LINES.replace("48", "64")).output
    assert "✕" in missed
    assert "解释 ─" in missed


def test_the_end_of_input_ends_the_lesson_and_notes_nothing(home: Path) -> None:
    result = call("12", text="16\n90\n")
    assert result.exit_code == 0
    assert "stopped here; nothing was noted" in result.output
    assert not (home / "learn.json").exists()


@pytest.mark.parametrize("lesson", load_lessons(), ids=lambda lesson: lesson.name)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_picture_is_not_on_the_screen_before_the_questions(
    home: Path, lesson: Lesson, lang: Language
) -> None:
    caption = "".join(lesson.picture.caption.in_(lang).split())
    asked = "".join(call(str(lesson.number), "--lang", lang).output.split())
    assert "".join(lesson.predictions[0].ask.in_(lang).split()) in asked
    assert caption not in asked
    assert caption in "".join(call(str(lesson.number), "--read", "--lang", lang).output.split())


def test_check_without_a_run_says_how_to_make_one(home: Path) -> None:
    result = call("12", "--check")
    assert result.exit_code == 1
    assert "cutaway learn 12" in result.output
    with_run(home, home / "gone")
    result = call("12", "--check")
    assert result.exit_code == 1
    assert "gone" in result.output


def test_the_mistakes_run_fails_the_check_with_a_counter_example(home: Path, run_of: RunOf) -> None:  # noqa: F811 - a fixture
    with_run(home, run_of(12, True))
    result = call("12", "--check")
    assert result.exit_code == 1
    assert "31 tokens found 0, the rule says 16" in result.output
    assert load(home / "learn.json").of(12).state == "predicted"
    good = call("12", "--check", "--run", str(run_of(12)))
    assert good.exit_code == 0
    assert load(home / "learn.json").of(12).state == "predicted", "somebody's run is not one's own"
    with_run(home, run_of(12))
    assert call("12", "--check").exit_code == 0
    assert load(home / "learn.json").of(12).state == "done"


def test_check_looks_at_a_kata_that_was_begun(home: Path, run_of: RunOf) -> None:  # noqa: F811 - a fixture
    with_run(home, run_of(12))
    lesson = find_lesson("12")
    kata_path(lesson).write_text("def cached_tokens(stored, prompt, block_size):\n    return 0\n")
    result = call("12", "--check")
    assert result.exit_code == 1
    assert "This is the smallest case that differs" in " ".join(result.output.split())
    kata_path(lesson).write_text("print('here')\nraise SystemExit\n")
    result = call("12", "--check")
    assert result.exit_code == 1
    assert "printed:" in result.output
    assert "   here" in result.output
    assert load(home / "learn.json").of(12).kata is None
    kata_path(lesson).write_text((lesson.folder / "kata_oracle.py").read_text())
    assert call("12", "--check").exit_code == 0
    assert load(home / "learn.json").of(12).kata is not None
    assert "✓" in call().output


def test_watch_checks_on_every_save_until_the_kata_passes(home: Path) -> None:
    lesson = find_lesson("6")
    path = kata_path(lesson)
    results: list[Result] = []
    watcher = threading.Thread(target=lambda: results.append(call("6", "--watch")), daemon=True)
    watcher.start()
    time.sleep(1)  # the stub is checked first, or the oracle is, if this machine is slow: both end
    path.write_text((lesson.folder / "kata_oracle.py").read_text())
    watcher.join(timeout=60)
    assert not watcher.is_alive()
    assert "agrees with the oracle" in " ".join(results[0].output.split())
    assert load(home / "learn.json").of(6).kata is not None


def test_export_and_reset(home: Path) -> None:
    with_run(home, home / "run")
    exported = json.loads(call("--export").output)
    assert exported == json.loads((home / "learn.json").read_text())
    for answer in ("", "n\n"):
        asked = call("--reset", text=answer)
        assert asked.exit_code == 1
        assert "Begin anew?" in asked.output
        assert json.loads(call("--export").output) == exported, "nothing was lost by asking"
    assert "从头开始" in call("--reset", "--lang", "zh").output
    assert "learn.json.old" in call("--reset", text="y\n").output.replace("\n", "")
    assert json.loads(call("--export").output)["lessons"] == {}
    assert "no progress" in call("--reset").output
    with_run(home, home / "run")
    assert "learn.json.old" in call("--reset", "--yes").output.replace("\n", "")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("13",), "no lesson '13'"),
        (("--watch",), "say which LESSON"),
        (("12", "--watch", "--check"), "one of"),
        (("12", "--run", "last"), "belongs to --check"),
        (("--yes",), "belongs to --reset"),
        (("13", "--lang", "zh"), "没有 '13' 这一课"),
        (("--watch", "--lang", "zh"), "请说明是哪一课"),
        (("12", "--watch", "--check", "--lang", "zh"), "只能选一个"),
        (("12", "--run", "last", "--lang", "zh"), "要和 --check 一起用"),
    ],
)
def test_what_cannot_be_done_is_said(home: Path, args: tuple[str, ...], said: str) -> None:
    result = call(*args)
    assert result.exit_code != 0
    assert said in " ".join(result.output.split())


def test_damaged_progress_is_an_error_with_advice(home: Path) -> None:
    home.mkdir()
    (home / "learn.json").write_text("{")
    result = call("12", "--check")
    assert result.exit_code == 1
    assert "--reset" in result.output
    assert "已损坏" in call("12", "--check", "--lang", "zh").output
    assert call("--reset", "--yes").exit_code == 0
    assert call().exit_code == 0


def test_a_failing_experiment_shows_its_last_words(home: Path) -> None:
    result = call("12", "--fast", "--model", "/nowhere/model", text=LINES)
    assert result.exit_code == 1
    assert "the experiment failed" in result.output
    assert "/nowhere/model" in " ".join(result.output.split())
    assert not (home / "learn.json").exists()
