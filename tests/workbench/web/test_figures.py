"""Rows in, a figure out: what a chart shows is data, and is tested as data."""

import math
from typing import Any

import pytest

from workbench.web import figures

THEMES = ("light", "dark")


@pytest.mark.parametrize("theme", THEMES)
def test_a_histogram_shows_every_bucket_and_marks_percentiles(theme: str) -> None:
    rows = [{"lo": 1.0, "hi": 1.2, "n": 3}, {"lo": 10.0, "hi": 12.0, "n": 40}]
    figure = figures.histogram(rows, theme, unit="ms", marks={"p50": 10.5, "p99": 11.5})
    (bars,) = figure["data"]
    assert bars["y"] == [3, 40]
    assert bars["width"] == pytest.approx([0.2, 2.0])
    assert all(row["lo"] < x < row["hi"] for row, x in zip(rows, bars["x"], strict=True))
    assert [line["x0"] for line in figure["layout"]["shapes"]] == [10.5, 11.5]
    notes = figure["layout"]["annotations"]
    assert [(n["text"], n["x"]) for n in notes] == [
        ("p50", math.log10(10.5)),
        ("p99", math.log10(11.5)),
    ]
    assert notes[0]["yshift"] != notes[1]["yshift"], (
        "names of near percentiles would cover each other"
    )


def test_lines_are_labelled_at_their_end_and_never_too_many() -> None:
    rows = [{"step": i, "running": i % 7, "waiting": i} for i in range(9_001)]
    figure = figures.over_steps(
        rows, "light", x="step", lines={"running": "running", "waiting": "waiting"}
    )
    for trace in figure["data"]:
        assert len(trace["x"]) <= figures.MAX_POINTS + 1
        assert trace["x"][-1] == 9_000
        assert trace["line"]["shape"] == "hv", "steps are not smoothed"
    assert {note["text"] for note in figure["layout"]["annotations"]} == {"running", "waiting"}
    assert figure["layout"]["showlegend"] is False


def test_fewer_points_keep_every_peak() -> None:
    rows = [{"x": i, "y": 1000 if i == 4321 else -5 if i == 77 else i % 3} for i in range(9_001)]
    kept = figures.thinned(rows, "y")
    assert {row["x"] for row in kept} >= {4321, 77, 9_000}
    assert len(kept) <= figures.MAX_POINTS + 1
    assert [row["x"] for row in kept] == sorted(row["x"] for row in kept)
    assert figures.bucket(len(rows)) == 10
    assert figures.thinned(rows[:2_000], "y") == rows[:2_000]


def test_nothing_is_drawn_between_steps_that_are_not_in_the_answer() -> None:
    gapless = figures.quick_chart(("step", "n"), [(i, i) for i in range(5)], "light")
    chosen = figures.quick_chart(("step", "n"), [(9, 1), (4, 7), (5, 2)], "light")
    assert gapless is not None
    assert chosen is not None
    assert gapless["data"][0]["mode"] == "lines"
    assert chosen["data"][0]["mode"] == "markers"
    assert chosen["data"][0]["x"] == [4, 5, 9]


def test_labels_at_line_ends_lie_apart_on_the_axis_that_is_drawn() -> None:
    rows = [{"x": i, "a": 4000 if i == 1 else 3, "b": 2 + i} for i in range(3)]
    figure = figures.over_steps(rows, "light", x="x", lines={"a": "a", "b": "b"})
    notes = figure["layout"]["annotations"]
    at = sorted(n["y"] / 4000 * figures.PLOT_PX + n["yshift"] for n in notes)
    assert at[1] - at[0] >= figures.LABEL_PX - 1


@pytest.mark.parametrize(
    ("columns", "rows", "kind"),
    [
        (("step", "tokens"), [(i, i * i) for i in range(5)], "scatter"),
        (("policy", "n"), [("vllm", 3), ("static", 1)], "bar"),
        (("a", "b"), [("x", "y")], None),
        (("n",), [(1,)], None),
        (("a", "n"), [], None),
        (("flag", "yes"), [(1, True), (2, False), (3, True)], None),
    ],
)
def test_the_obvious_chart(columns: Any, rows: Any, kind: str | None) -> None:
    figure = figures.quick_chart(columns, rows, "dark")
    assert (figure["data"][0]["type"] if figure else None) == kind


def test_figures_take_their_colours_from_the_theme() -> None:
    rows = [{"lo": 1.0, "hi": 2.0, "n": 1}]
    light, dark = (figures.histogram(rows, theme, unit="s", marks={}) for theme in THEMES)
    assert light["data"][0]["marker"]["color"] != dark["data"][0]["marker"]["color"]
    for figure in (light, dark):
        assert figure["layout"]["paper_bgcolor"] == "rgba(0,0,0,0)"
