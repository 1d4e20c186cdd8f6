"""Pieces of the workbench that need no browser: windows, seats, runs by name, words, colours."""

import re
import string
import threading
from itertools import pairwise
from pathlib import Path

import pytest

import workbench.web
from tests.workbench.web.conftest import RUN
from tests.workbench.web.hostile import NAME
from tracing.errors import TraceError
from tracing.reader import Run
from tracing.runs import RunInfo
from workbench.look.palette import palette
from workbench.look.words import LANGUAGES, Words, catalogue
from workbench.web import queries
from workbench.web.library import MAX_OPEN, Library, UnknownRun
from workbench.web.pages.sql import METRICS, saved_text
from workbench.web.palette_css import tokens_css
from workbench.web.parts import said
from workbench.web.pictures import _budget_used, lanes, picture
from workbench.web.titles import run_sentence, run_title

HERE = Path(workbench.web.__file__).parent


# -- windows of a run ----------------------------------------------------------------------------------------


def test_a_window_holds_all_rows_of_its_steps_and_no_others(run: Run) -> None:
    window = queries.steps(run, engine=0, a=10, b=19)
    for table, rows in window["rows"].items():
        at = window["columns"][table].index("step")
        ((expected,),) = run.sql(f"SELECT count(*) FROM {table} WHERE step BETWEEN 10 AND 19").rows
        assert len(rows) == expected, table
        assert {row[at] for row in rows} <= set(range(10, 20))
    assert queries.steps(run, engine=0, a=0, b=10**6)["b"] == queries.MAX_STEPS - 1


def test_a_pool_is_not_told_before_its_step_is_in_the_tables(run: Run) -> None:
    assert queries.pool(run, engine=0, step=95)["early"] is False
    assert queries.pool(run, engine=0, step=-1)["early"] is False
    assert queries.pool(run, engine=0, step=96) == {"early": True}


@pytest.mark.parametrize("most", [1, 7, 96, 1000])
def test_bins_fold_every_step_once(run: Run, most: int) -> None:
    told = queries.bins(run, engine=0, a=0, b=95, most=most)
    rows = [dict(zip(told["columns"], row, strict=True)) for row in told["rows"]]
    assert len(rows) <= most
    assert rows[0]["step"] == 0
    assert rows[-1]["last_step"] == 95
    for before, after in pairwise(rows):
        assert after["step"] == before["last_step"] + 1
    ((tokens, preempted),) = run.sql("SELECT sum(num_tokens), sum(num_preempted) FROM step").rows
    assert sum(row["tokens"] for row in rows) == tokens
    assert sum(row["preempted"] for row in rows) == preempted == 7


@pytest.mark.parametrize("kind", list(queries.EVENTS))
def test_jumping_meets_every_event_once_in_both_directions(run: Run, kind: str) -> None:
    def walk(step: int, seq: int, *, back: bool) -> list[tuple[int, int]]:
        met: list[tuple[int, int]] = []
        while True:
            found = queries.next_event(run, engine=0, kind=kind, step=step, seq=seq, back=back)
            event = found["event"]
            if event is None:
                return met
            step, seq = event["step"], event["seq"]
            met.append((step, event["place"]))

    there = walk(-1, 0, back=False)
    assert there
    assert [place for _, place in there] == list(range(1, len(there) + 1))
    assert walk(10**6, 0, back=True) == there[::-1]


def test_lives_begin_and_end_where_the_rows_say(run: Run) -> None:
    told = queries.lives(run, engine=0)
    lives = [dict(zip(told["columns"], row, strict=True)) for row in told["rows"]]
    assert len(lives) == 30
    rows = {
        request: (first, last)
        for request, first, last in run.sql(
            "SELECT request_id, min(step), max(step) FROM step_request GROUP BY ALL"
        ).rows
    }
    for life in lives:
        assert (life["first_row"], life["last_row"]) == rows.get(life["request_id"], (None, None))
        if life["first_row"] is not None:
            assert life["arrival_step"] <= life["first_row"]
    assert sum(len(life["preempted"]) for life in lives) == 7


def test_seats_never_overlap(run: Run) -> None:
    drawn = picture(run)["lanes"]
    assert drawn
    taken: dict[int, int] = {}
    for lane, _, first, _, last in drawn:
        assert taken.get(lane, -1) < first
        taken[lane] = last
    assert lanes([(1, 0, 1, 5), (2, 2, 3, 9), (3, 6, 7, 8)]) == [
        (0, 1, 0, 1, 5),
        (1, 2, 2, 3, 9),
        (0, 3, 6, 7, 8),
    ]


# -- runs by name --------------------------------------------------------------------------------------------


def test_runs_are_found_by_name_only(environment: None) -> None:
    library = Library()
    assert {name for name, _, _ in library.runs()} == {RUN, NAME}
    for name in ("", ".", f"../{RUN}", "/etc"):
        with pytest.raises(UnknownRun):
            library.find(name)
    with pytest.raises(TraceError, match="no run"):
        Library(["nowhere"])
    library.close()


def test_a_run_that_is_given_may_lie_anywhere(
    environment: None, tmp_path: Path, home: Path
) -> None:
    elsewhere = tmp_path / "lent"
    elsewhere.symlink_to(home / "cutaway/runs" / RUN)
    library = Library([str(elsewhere)])
    assert library.newest() == RUN
    library.close()


def test_no_run_is_closed_while_it_answers(environment: None, home: Path, tmp_path: Path) -> None:
    """More runs than may be open, asked from several threads at once."""
    runs = []
    for i in range(MAX_OPEN + 3):
        link = tmp_path / f"run-{i}"
        link.mkdir()
        for file in (home / "cutaway/runs" / RUN).iterdir():
            (link / file.name).symlink_to(file)
        runs.append(str(link))
    library = Library(runs)
    wrong: list[object] = []

    def ask(i: int) -> None:
        for j in range(12):
            name = f"run-{(i + j) % len(runs)}"
            steps = library.ask(name, lambda run: run.query("summary").dicts()[0]["steps"])
            if steps != 96:
                wrong.append(steps)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(library._open) <= MAX_OPEN
    library.close()


# -- words ---------------------------------------------------------------------------------------------------


def test_both_languages_say_everything_that_is_asked_for() -> None:
    said = {
        lang: {k: v for k, v in catalogue(lang).items() if k.startswith("web.")}
        for lang in LANGUAGES
    }
    assert said["en"].keys() == said["zh"].keys()
    for key, text in said["en"].items():
        fields = [
            {f for _, f, _, _ in string.Formatter().parse(t) if f} for t in (text, said["zh"][key])
        ]
        assert fields[0] == fields[1], key
    asked = set()
    for path in HERE.rglob("*.py"):
        asked |= set(re.findall(r'"(web\.[a-z_0-9.]+)"', path.read_text()))
    for path in HERE.glob("assets/*.mjs"):
        asked |= {f"web.{key}" for key in re.findall(r"\bt\('([a-z_0-9.]+)'", path.read_text())}
    missing = {key for key in asked if key not in said["en"] and not _is_module(key)}
    assert not missing


def _is_module(key: str) -> bool:
    return (HERE.parent / (key.replace(".", "/") + ".py")).exists()


def test_a_run_has_a_title_and_a_sentence() -> None:
    words = Words("en")
    info = RunInfo.new(tokens_recorded=False)
    assert run_title(words, "pressure-200", info) == "Pressure 200"
    assert re.match(r"\d+ \w+, \d\d:\d\d$", run_title(words, "20260102-030405-abcd", info))
    assert run_sentence(words, info) == words("web.run.live")
    sealed = info.sealed(
        {"requests": 30, "steps": 96, "preemptions": 7, "duration_ns": 10**9, "model": "toy"}
    )
    assert (
        run_sentence(words, sealed) == "30 requests to toy in 1.0 s. A preemption every 14 steps."
    )


def test_saved_queries_run_as_they_stand(run: Run) -> None:
    for name in METRICS:
        assert run.sql(saved_text(name, "en")).columns, name


# -- colours -------------------------------------------------------------------------------------------------


def luminance(hex_: str) -> float:
    channels = [int(hex_[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("theme", "marks"), [("light", 3.0), ("dark", 4.0)])
def test_text_and_marks_can_be_seen_in_both_themes(theme: str, marks: float) -> None:
    tokens = palette()["web"][theme]
    for ground in ("s1", "s2", "bg", "code"):
        for ink in ("ink", "ink2"):
            assert contrast(tokens[ink], tokens[ground]) >= 4.5, (ink, ground)
    assert contrast(tokens["ink3"], tokens["s1"]) >= 4.5
    assert contrast(tokens["red"], tokens["s1"]) >= 4.5
    for i, hue in enumerate(palette()["hues"][theme]):
        assert contrast(hue, tokens["s1"]) >= marks, f"hue {i}"
        assert max(contrast(hue, "#15181C"), contrast(hue, "#FFFFFF")) >= 4.2, f"text on hue {i}"


def test_the_browser_gets_the_whole_palette() -> None:
    css = tokens_css()
    for theme in ("light", "dark"):
        assert f'data-theme="{theme}"' in css
        for i, hue in enumerate(palette()["hues"][theme]):
            assert f"--hue{i}: {hue};" in css


def test_every_error_with_a_key_is_said_in_both_languages() -> None:
    def kinds(kind: type[TraceError]) -> set[type[TraceError]]:
        return {kind} | {below for sub in kind.__subclasses__() for below in kinds(sub)}

    keyed = [kind for kind in kinds(TraceError) if kind.key is not None]
    assert len(keyed) > 5
    for lang in LANGUAGES:
        for kind in keyed:
            assert said(Words(lang), kind("x")) != "x"
    assert said(Words("zh"), TraceError("the database's own words")) == "the database's own words"


def test_numbers_of_a_run_are_of_all_its_engines(run: Run) -> None:
    found = picture(run)["numbers"]["budget_used"]
    (use,) = run.query("budget_use").dicts()
    assert found == use["share"]
    twice = [{"used_tokens": 10, "offered_tokens": 100}, {"used_tokens": 90, "offered_tokens": 100}]
    assert _budget_used(twice) == 0.5
    assert _budget_used([]) is None
