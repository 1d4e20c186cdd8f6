"""V5, interleave and stall: what each step costs, and what that does to everybody's next token.

Query: `queries.steps` (tables step and token); drawn by `assets/view_stall.mjs`. Times that a cost model made
are drawn dashed, and said to be.
"""

from dash import html

from workbench.look.words import Words
from workbench.web.views.plot import timeline_view


def view(words: Words, *, modelled: bool) -> html.Section:
    """The view; `modelled`: the run's clock was a cost model's."""
    key = [
        html.I(className="key decode"),
        html.Span(words("web.batch.decode")),
        html.I(className="key prefill"),
        html.Span(words("web.batch.prefill")),
        html.Span(words("web.stall.modelled" if modelled else "web.stall.measured")),
    ]
    return timeline_view(words, "stall", html.Div(key, className="keyline"))
