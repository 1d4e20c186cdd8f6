"""V3, the KV block map: one cell per physical block, for the whole run in the same place.

Query: `queries.pool` (kv_at) after a step, then kv_event rows; drawn by `assets/view_blocks.mjs`. Under it
the same pool in numbers, and the blocks that will be given out next.
"""

from dash import html
from dash.development.base_component import Component

from workbench.look.words import Words
from workbench.web.parts import attributes, canvas, state_box, term

LEGEND = (
    "queue",
    "prefill",
    "decode",
    "waste",
    "preempted",
    "first",
    "cached",
    "shared",
    "lost",
    "written",
)
NUMBERS = ("used", "cached", "unfilled", "free")


def view(words: Words, num_blocks: int | None, block_size: int | None) -> html.Section:
    """The card with map, numbers and legend; a run without a core has neither pool nor map."""
    size = words("web.view.blocks_what", n=(num_blocks or 1) - 1, size=block_size or 0)
    title = html.Header(
        [
            html.H2(words("web.view.blocks")),
            html.Small(size),
            html.Small(**attributes(data_note="blocks"), className="older"),
        ]
    )
    plot = html.Div(
        [
            canvas("base", role="img", **attributes(aria_label=words("web.view.blocks"))),
            canvas("over"),
        ],
        className="plot",
        tabIndex="0",
        **attributes(data_plot="blocks", aria_label=words("web.view.blocks")),
    )
    parts: list[Component] = [title, state_box(words, "noblocks"), plot]
    return html.Section([*parts, _numbers(words), legend(words)], className="card map")


def _numbers(words: Words) -> html.Div:
    bar = html.Div(
        [html.I(), html.I(), html.I()], className="usebar", **attributes(aria_hidden="true")
    )
    pairs = [
        html.Div([html.Dt(term(words, name)), html.Dd("–", **attributes(data_text=name))])
        for name in NUMBERS
    ]
    return html.Div(
        [
            bar,
            html.Dl(pairs, className="numbers"),
            html.H3(words("web.blocks.next")),
            html.Div(className="nextout"),
        ],
        className="pool",
    )


def legend(words: Words) -> html.Details:
    """How to read the pictures; open at the first visit."""
    rows: list[Component] = [
        html.Div([_swatch(name), html.Span(words(f"web.legend.{name}"))]) for name in LEGEND
    ]
    return html.Details(
        [
            html.Summary([html.B(words("web.legend.title")), html.Small(words("web.legend.what"))]),
            html.Div(rows, className="samples"),
            html.Div(_swatch("hues"), className="hues"),
            html.P(words("web.legend.hues"), className="note"),
        ],
        open=True,
        className="legend",
        **attributes(data_mount="legend"),
    )


def _swatch(name: str) -> html.Canvas:
    """A sample that `assets/legend.mjs` draws; the words beside it say what it is."""
    return html.Canvas(**attributes(data_swatch=name, aria_hidden="true"))
