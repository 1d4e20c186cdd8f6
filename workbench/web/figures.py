"""Charts as pure functions: rows in, a Plotly figure as a plain dictionary out.

The look is the workbench's, not Plotly's: transparent ground, hairlines, direct labels, no mode bar.
Colours are roles (`ink`, `line`), resolved by the theme that the caller names, so a figure can be made
and tested anywhere.

Invariant: a figure holds at most `MAX_POINTS` points; more are folded by the query, not here.
"""

from collections.abc import Sequence
from math import log10
from typing import Any

from workbench.look.palette import palette

MAX_POINTS = 2_000
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


def over_steps(rows: Sequence[Row], theme: str, *, x: str, lines: dict[str, str]) -> Figure:
    """Values over the run: `lines` maps a column to what it is called; each line is labelled at its end."""
    colours = _colours(theme)
    shades = [colours["ink"], colours["ink3"], colours["line2"]]
    rows = thinned(rows)
    traces, notes = [], []
    for (column, name), shade in zip(lines.items(), shades, strict=False):
        values = [row[column] for row in rows]
        traces.append(
            {
                "type": "scatter", "mode": "lines", "name": name, "x": [row[x] for row in rows],
                "y": values, "line": {"color": shade, "width": 1.5, "shape": "hv"},
                "hovertemplate": f"%{{x}}: %{{y:,.4~g}} {name}<extra></extra>",
            }
        )  # fmt: skip
        if values and values[-1] is not None:
            notes.append(
                {
                    "x": rows[-1][x], "y": values[-1], "text": name, "showarrow": False,
                    "xanchor": "left", "xshift": 6, "font": {"size": 11, "color": colours["ink2"]},
                }
            )  # fmt: skip
    figure = _frame(traces, theme, height=190)
    figure["layout"] |= {"annotations": spread(notes), "hovermode": "closest"}
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
            ordered, theme, x=columns[0], lines={columns[i]: columns[i] for i in numeric}
        )
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


def thinned(rows: Sequence[Row]) -> Sequence[Row]:
    """Every n-th row, so that at most `MAX_POINTS` are left; the last one stays."""
    every = -(-len(rows) // MAX_POINTS)
    if every <= 1:
        return rows
    kept = list(rows[::every])
    return kept if kept[-1] is rows[-1] else [*kept, rows[-1]]


def spread(notes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Labels at line ends, the upper of two near ones moved up so that they can be read."""
    values = [note["y"] for note in notes]
    span = (max(values) - min(0, *values)) or 1 if values else 1
    taken: list[float] = []
    for note in sorted(notes, key=lambda n: n["y"]):
        at = max([note["y"] / span * 120, *(other + 14 for other in taken[-1:])])
        note["yshift"] = round(at - note["y"] / span * 120)
        taken.append(at)
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


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
