"""Charts as pure functions: rows in, a Plotly figure as a plain dictionary out.

The look is the workbench's, not Plotly's: transparent ground, hairlines, direct labels, no mode bar.
Colours are roles (`ink`, `line`), resolved by the theme that the caller names, so a figure can be made
and tested anywhere.

Invariant: a line holds at most `MAX_POINTS` points and its last; of more rows it shows lowest and highest.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import log10
from typing import Any

from workbench.look.palette import palette

MAX_POINTS = 2_000
"""Of a line."""
PLOT_PX, LABEL_PX = 142, 14
"""Height of a plot of lines without its margins; and of a label."""
Row = dict[str, Any]
Figure = dict[str, Any]


def histogram(rows: Sequence[Row], theme: str, *, unit: str, marks: dict[str, float]) -> Figure:
    """Durations in logarithmic buckets: rows of `lo`, `hi` (in the unit), `n`; lines at `marks`."""
    colours = _colours(theme)
    bars = {
        "type": "bar",
        "x": [(row["lo"] * row["hi"]) ** 0.5 for row in rows],
        "y": [row["n"] for row in rows],
        "width": [row["hi"] - row["lo"] for row in rows],
        "marker": {"color": colours["ink3"], "line": {"width": 0}},
        "customdata": [[row["lo"], row["hi"]] for row in rows],
        "hovertemplate": f"%{{customdata[0]:.3s}} – %{{customdata[1]:.3s}} {unit}: %{{y}}<extra></extra>",
    }
    lines = [
        {
            "type": "line", "x0": at, "x1": at, "y0": 0, "y1": 1, "yref": "paper",
            "line": {"color": colours["ink"], "width": 1, "dash": "dot"},
        }
        for at in marks.values()
    ]  # fmt: skip
    notes = [
        {
            # Positions on a logarithmic axis are given as exponents.
            "x": log10(at), "y": 1.0, "yref": "paper", "text": name, "showarrow": False,
            "xanchor": "left", "yanchor": "bottom", "font": {"size": 11, "color": colours["ink2"]},
            "yshift": 12 * i,  # near ones would cover each other
        }
        for i, (name, at) in enumerate(marks.items())
    ]  # fmt: skip
    figure = _frame([bars], theme, height=190)
    figure["layout"]["margin"]["t"] = 16 + 12 * len(marks)
    figure["layout"] |= {"shapes": lines, "annotations": notes, "bargap": 0}
    figure["layout"]["xaxis"] |= {"type": "log", "ticksuffix": f" {unit}", "nticks": 5}
    return figure


def over_steps(
    rows: Sequence[Row], theme: str, *, x: str, lines: dict[str, str], points: bool = False
) -> Figure:
    """Values over the run: `lines` maps a column to what it is called; each line is labelled at its end.

    A value holds until the next row; `points`: nothing is known between them, so there is nothing drawn.
    """
    colours = _colours(theme)
    shades = [colours["ink"], colours["ink3"], colours["line2"]]
    how: dict[str, Any] = {"mode": "markers"} if points else {"mode": "lines"}
    traces, notes = [], []
    for (column, name), shade in zip(lines.items(), shades, strict=False):
        kept = thinned(rows, column)
        traces.append(
            {
                "type": "scatter", **how, "name": name, "x": [row[x] for row in kept],
                "y": [row[column] for row in kept],
                "line": {"color": shade, "width": 1.5, "shape": "hv"},
                "marker": {"color": shade, "size": 5},
                "hovertemplate": f"%{{x}}: %{{y:,.4~g}} {name}<extra></extra>",
            }
        )  # fmt: skip
        if rows and rows[-1][column] is not None:
            notes.append(
                {
                    "xref": "paper", "x": 1, "y": rows[-1][column], "text": name, "showarrow": False,
                    "xanchor": "left", "xshift": 6, "font": {"size": 11, "color": colours["ink2"]},
                }
            )  # fmt: skip
    figure = _frame(traces, theme, height=190)
    drawn = [value for trace in traces for value in trace["y"] if value is not None]
    figure["layout"] |= {"annotations": spread(notes, drawn), "hovermode": "closest"}
    figure["layout"]["margin"]["r"] = 90
    return figure


def quick_chart(columns: Sequence[str], rows: Sequence[Sequence[Any]], theme: str) -> Figure | None:
    """The obvious chart of an answer: its first column on x, numbers after it on y; None: there is none."""
    if not rows or len(columns) < 2:
        return None
    numeric = [
        i for i in range(1, len(columns)) if all(_is_number(row[i]) or row[i] is None for row in rows)
        and any(_is_number(row[i]) for row in rows)
    ][:3]  # fmt: skip
    if not numeric:
        return None
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    first_is_number = all(_is_number(row[0]) for row in rows)
    if first_is_number and len(rows) > 2:
        ordered = sorted(named, key=lambda row: row[columns[0]])
        return over_steps(
            ordered, theme, x=columns[0], lines={columns[i]: columns[i] for i in numeric},
            points=not _is_gapless([row[columns[0]] for row in ordered]),
        )  # fmt: skip
    colours = _colours(theme)
    bars = {
        "type": "bar", "orientation": "h", "y": [str(row[0]) for row in rows[:40]],
        "x": [row[numeric[0]] for row in rows[:40]], "marker": {"color": colours["ink3"]},
        "hovertemplate": "%{y}: %{x:,.6~g}<extra></extra>",
    }  # fmt: skip
    figure = _frame([bars], theme, height=60 + 22 * min(len(rows), 40))
    figure["layout"]["yaxis"] |= {"autorange": "reversed", "showgrid": False, "automargin": True}
    figure["layout"]["xaxis"]["title"] = {"text": columns[numeric[0]], "font": {"size": 11}}
    return figure


def bucket(num_rows: int) -> int:
    """How many rows share two points of a line; 1: each row is drawn."""
    return 1 if num_rows <= MAX_POINTS else -(-2 * num_rows // MAX_POINTS)


def thinned(rows: Sequence[Row], column: str) -> Sequence[Row]:
    """Of each `bucket` the rows with the lowest and the highest value, and the last row: no peak is lost."""
    size = bucket(len(rows))
    if size == 1:
        return rows
    kept: list[int] = []
    for start in range(0, len(rows), size):
        told = [
            i for i in range(start, min(start + size, len(rows))) if rows[i][column] is not None
        ]
        if told:
            ends = {f(told, key=lambda i: rows[i][column]) for f in (min, max)}
            kept += sorted(ends)
    if kept and kept[-1] != len(rows) - 1:
        kept.append(len(rows) - 1)
    return [rows[i] for i in kept]


def spread(notes: list[dict[str, Any]], drawn: Sequence[float]) -> list[dict[str, Any]]:
    """Labels at line ends, moved apart so that near ones can be read; `drawn`: all values on the axis."""
    span = (max([0, *drawn]) - min([0, *drawn])) or 1
    ordered = sorted(notes, key=lambda note: note["y"])
    places = [note["y"] / span * PLOT_PX for note in ordered]
    at = list(places)
    for i in range(1, len(at)):
        at[i] = max(at[i], at[i - 1] + LABEL_PX)
    for note, place, moved in zip(ordered, places, at, strict=True):
        note["yshift"] = round(moved - place)
    return notes


def _frame(traces: list[dict[str, Any]], theme: str, *, height: int) -> Figure:
    colours = _colours(theme)
    axis = {
        "zeroline": False, "linecolor": colours["line2"], "tickcolor": colours["line2"],
        "tickfont": {"size": 11, "color": colours["ink3"]}, "fixedrange": True,
    }  # fmt: skip
    return {
        "data": traces,
        "layout": {
            "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "height": height,
            "font": {"family": "Noto Sans, Segoe UI, Liberation Sans, sans-serif", "size": 11,
                     "color": colours["ink2"]},
            "margin": {"l": 48, "r": 12, "t": 20, "b": 28}, "showlegend": False,
            "hovermode": "closest",
            "hoverlabel": {"bgcolor": colours["ink"], "font": {"color": colours["s1"]},
                           "bordercolor": colours["ink"]},
            "xaxis": {**axis, "showgrid": False, "ticks": "outside", "ticklen": 4},
            "yaxis": {**axis, "gridcolor": colours["line"], "nticks": 4, "linecolor": "rgba(0,0,0,0)",
                      "rangemode": "tozero"},
        },
    }  # fmt: skip


def _colours(theme: str) -> dict[str, str]:
    found: dict[str, str] = palette()["web"][theme if theme in ("light", "dark") else "light"]
    return found


def _is_gapless(values: Sequence[float]) -> bool:
    """Whether these are neighbours, one each: then a line between them says nothing that is not so."""
    return all(after - before == 1 for before, after in pairwise(values))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
