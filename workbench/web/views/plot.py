"""The frame of a timeline view: its title, and the layers of its plot.

    paper < cursor band < base canvas < cursor edges < canvas for outlines

Invariant: only base canvases carry data; `assets/timeline.mjs` moves the rest over them.
"""

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from workbench.look.words import Words
from workbench.web.parts import attributes, canvas


def timeline_view(
    words: Words, name: str, *controls: Component, over: Sequence[Component] = ()
) -> html.Section:
    """A view of the timeline card; `controls` stand at the right of its title, `over` on its plot."""
    title = html.Header(
        [
            html.H2(words(f"web.view.{name}")),
            html.Small(words(f"web.view.{name}_what")),
            html.Div(list(controls), className="controls"),
        ]
    )
    return html.Section([title, plot(words, name, over)], className=f"view {name}")


def plot(words: Words, name: str, over: Sequence[Component] = ()) -> html.Div:
    """The layers of one plot. It takes the keyboard: arrows walk its marks."""
    label: dict[str, Any] = {"role": "img", "aria-label": words(f"web.view.{name}")}
    return html.Div(
        [
            html.Div(className="paper"),
            html.Div(className="band", hidden=True),
            canvas("base", **label),
            html.Div(className="edges", hidden=True),
            canvas("over"),
            *over,
        ],
        className="plot",
        tabIndex="0",
        **attributes(data_plot=name, aria_label=words(f"web.view.{name}")),
    )
