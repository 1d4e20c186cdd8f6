"""V2, request lives: one row per request, from its arrival to its end.

Query: `queries.lives` for where lives begin and end, `queries.steps` for what happens in between; drawn by
`assets/view_lives.mjs`. Sorting and filtering change which rows are seen, never whose colour they have.
"""

from dash import html

from workbench.look.words import Words
from workbench.web.parts import attributes
from workbench.web.views.plot import timeline_view

SORTS = ("arrival", "ttft", "waste")
SHOWN = ("all", "preempted")


def view(words: Words) -> html.Section:
    """The view with its two menus, and what it says when nobody is left."""
    menus = (menu(words, "sort", SORTS), menu(words, "only", SHOWN))
    return timeline_view(words, "lives", *menus, over=[nobody(words)])


def nobody(words: Words) -> html.Div:
    """What the view says when a filter hides everybody; `assets/timeline.mjs` shows it."""
    buttons = html.Div(
        [
            html.Button(**attributes(data_act="goto-step", data_step="0")),
            html.Button(words("web.filter.clear"), **attributes(data_do="clear")),
        ]
    )
    return html.Div(
        [html.B(words("web.lives.nobody")), html.P(), buttons], className="emptybox", hidden=True
    )


def menu(words: Words, name: str, options: tuple[str, ...]) -> html.Label:
    """A small native menu; `assets/transport.mjs` listens to it."""
    return html.Label(
        [
            html.Span(words(f"web.{name}.label")),
            html.Select(
                [html.Option(words(f"web.{name}.{value}"), value=value) for value in options],
                **attributes(data_do=name),
            ),
        ],
        className="menu",
    )
