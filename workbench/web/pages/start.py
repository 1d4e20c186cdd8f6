"""The start page: what runs now, what was recorded, and for a newcomer the way to the first batch.

    first batch    a small run, three requests on eight blocks, told in three sentences
    live servers   looked for every two seconds
    runs           most eventful first; each with its own picture, drawn when it comes into view

Invariant: no run is opened to list it; key numbers come from run.json, the rest when the card is seen.
"""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dash import Dash, Input, Output, dcc, html
from dash.development.base_component import Component

from tracing.runs import RunInfo
from workbench.look.words import Words
from workbench.servers import running_servers
from workbench.web.library import Library
from workbench.web.live import describe
from workbench.web.parts import attributes, request_words
from workbench.web.titles import run_sentence, run_title
from workbench.web.views.plot import timeline_view

FIRST_BATCH = "first-batch"
"""The sample run that the newcomer's card shows."""
LOOK_MS = 2_000
PAGE_SIZE = 24
Known = tuple[str, Path, RunInfo]


def page(library: Library, words: Words, run: str | None, search: str) -> html.Div:
    """The start page."""
    runs = library.runs()
    first = next((known for known in runs if known[0] == FIRST_BATCH), None)
    top: list[Component] = [_first_batch(words, first)] if first else []
    side = [_servers(words), *_continue(words, runs)]
    return html.Div(
        [
            dcc.Interval(id="look", interval=LOOK_MS),
            html.Div([*top, html.Div(side, className="side")], className="welcome"),
            _recorded(words, runs),
        ],
        className="start",
    )


def register(dash: Dash, library: Library) -> None:
    """Live servers, and the order of runs."""

    @dash.callback(Output("servers", "children"), Input("look", "n_intervals"))
    async def look(_: int | None) -> list[Component]:
        return servers(request_words())

    @dash.callback(
        Output("runs", "children"),
        Input("policy", "value"),
        Input("order", "value"),
        Input("more-runs", "n_clicks"),
        prevent_initial_call=True,
    )
    async def reorder(policy: str, order: str, more: int | None) -> list[Component]:
        runs = await asyncio.to_thread(library.runs)
        return cards(request_words(), runs, policy, order, PAGE_SIZE * (1 + (more or 0)))


def servers(words: Words) -> list[Component]:
    """Running servers of this machine as cards, or how to start one."""
    found = [describe(server) for server in running_servers()]
    if not found:
        return [
            html.Div(
                [
                    html.B(words("web.servers.none")),
                    html.P(words("web.servers.none_why")),
                    html.Pre("cutaway serve --web"),
                ],
                className="dashed",
            )
        ]
    return [_server(words, server) for server in found]


def cards(words: Words, runs: list[Known], policy: str, order: str, most: int) -> list[Component]:
    """Run cards in the order asked for."""
    shown = [known for known in runs if policy in ("any", known[2].summary.get("policy"))]
    if order == "eventful":
        # A run that is going on comes first; then those in which something happened to somebody.
        shown.sort(key=lambda known: (known[2].state == "sealed", -_eventful(known[2])))
    if not shown:
        return [
            html.Div([html.B(words("web.runs.none")), html.Pre("cutaway demo")], className="dashed")
        ]
    return [run_card(words, *known) for known in shown[:most]]


def run_card(words: Words, name: str, path: Path, info: RunInfo) -> Component:
    """A run: name, one sentence, picture, five numbers."""
    said: dict[str, Any] = info.summary
    tag = " · ".join(str(part) for part in (said.get("policy"), said.get("cache_kind")) if part)
    numbers = [
        _number(words, "requests", said.get("requests")),
        _number(words, "steps", said.get("steps")),
        _number(words, "budget_used", None, share=True),
        _number(words, "prefix_hits", None, share=True),
        _number(words, "preemptions", said.get("preemptions")),
    ]
    if info.state != "sealed":
        tag = words("web.run.recording")
    body = [
        html.Header([html.H3(run_title(words, name, info)), html.Small(tag or "–")]),
        html.P(run_sentence(words, info)),
        html.Div(
            html.Canvas(role="img", **attributes(aria_label=words("web.run.picture"))),
            className="picture",
            **attributes(data_mount="picture", data_run=name),
        ),
        html.Dl(numbers, className="facts"),
    ]
    return dcc.Link(
        html.Article(body), href=f"/replay/{quote(name)}", className="card runcard", title=name
    )


def _number(words: Words, name: str, value: int | None, *, share: bool = False) -> html.Div:
    filled = attributes(data_number=name, **({"data_share": "true"} if share else {}))
    alarm = "alarm" if name == "preemptions" and value else ""
    text = "–" if value is None else f"{value:,}"
    return html.Div(
        [html.Dt(words(f"web.number.{name}")), html.Dd(text, className=alarm, **filled)],
        className="fact",
    )


def _eventful(info: RunInfo) -> float:
    said = info.summary
    return (said.get("preemptions") or 0) * 10 + (said.get("requests") or 0)


def _first_batch(words: Words, known: Known) -> html.Section:
    """The newcomer's card: what to look for, and the picture of it."""
    name, _, _ = known
    points = [html.Li(words(f"web.first.{i}")) for i in (1, 2, 3)]
    href = f"/replay/{quote(name)}"
    text = html.Div(
        [
            html.H1(words("web.first.title")),
            html.P(words("web.first.what")),
            html.Ol(points),
            html.Div(
                [
                    dcc.Link(words("web.first.play"), href=href, className="button primary"),
                    dcc.Link(
                        words("web.first.look"),
                        href=f"{href}?step=5&mark=preempt.5.4294967298.0",
                        className="button",
                    ),
                ],
                className="buttons",
            ),
        ],
        className="text",
    )
    views = html.Div(
        [
            html.Div(
                html.Canvas(**attributes(data_layer="axis", aria_hidden="true")), className="axis"
            ),
            timeline_view(words, "batch"),
            timeline_view(words, "lives"),
        ],
        className="timelines",
        **attributes(data_mount="preview", data_run=name, data_least="86"),
    )
    return html.Section([text, views], className="card first")


def _servers(words: Words) -> html.Section:
    head = html.Header(
        [html.H2(words("web.servers.title")), html.Small(words("web.servers.looks"))]
    )
    return html.Section(
        [head, html.Div(servers(words), id="servers", className="servers")], className="card"
    )


def _server(words: Words, server: dict[str, Any]) -> html.Div:
    live = html.Span([html.I(), words("web.badge.live")], className="livetag")
    links: list[Component] = []
    if server["run"]:
        links.append(
            dcc.Link(
                words("web.servers.watch"),
                href=f"/replay/{quote(server['run'])}",
                className="button primary",
            )
        )
    chat = f"/playground?server={server['pid']}"
    links.append(dcc.Link(words("web.servers.chat"), href=chat, className="button"))
    return html.Div(
        [
            html.Div([html.B(server["model"]), live]),
            html.Code(server["url"]),
            html.Div(links, className="buttons"),
        ],
        className="server",
    )


def _continue(words: Words, runs: list[Known]) -> list[html.Section]:
    """The newest recordings, to go on with."""
    if not runs:
        return []
    rows: list[Component] = [
        html.Li(
            [
                dcc.Link(run_title(words, name, info), href=f"/replay/{quote(name)}"),
                html.Small(words("web.run.steps", n=f"{info.summary.get('steps') or 0:,}")),
            ]
        )
        for name, _, info in sorted(runs, key=lambda known: -known[2].created_ns)[:3]
    ]
    return [
        html.Section([html.H2(words("web.runs.newest")), html.Ul(rows)], className="card newest")
    ]


def _recorded(words: Words, runs: list[Known]) -> html.Section:
    policies = sorted(
        {str(info.summary["policy"]) for _, _, info in runs if info.summary.get("policy")}
    )
    head = html.Header(
        [
            html.H2(words("web.runs.title")),
            html.Small(words("web.runs.count", n=len(runs))),
            html.Div(
                [
                    _select(
                        words,
                        "policy",
                        [("any", words("web.runs.any")), *((p, p) for p in policies)],
                    ),
                    _select(
                        words,
                        "order",
                        [
                            ("eventful", words("web.runs.eventful")),
                            ("newest", words("web.runs.bynewest")),
                        ],
                    ),
                ],
                className="controls",
            ),
        ],
        className="runshead",
    )
    more = html.Button(
        words("web.runs.more"), id="more-runs", hidden=len(runs) <= PAGE_SIZE, className="button"
    )
    listed = html.Div(cards(words, runs, "any", "eventful", PAGE_SIZE), id="runs", className="runs")
    return html.Section([head, listed, more])


def _select(words: Words, name: str, options: list[tuple[str, str]]) -> html.Label:
    choice = dcc.Dropdown(
        id=name,
        options=[{"value": value, "label": text} for value, text in options],
        value=options[0][0],
        clearable=False,
        searchable=False,
    )
    return html.Label([html.Span(words(f"web.runs.{name}")), choice], className="choice")
