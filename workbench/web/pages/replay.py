"""The replay page: one run under one cursor. Four views, the reasons, and the transport.

The server lays it out once; from then on the browser draws (`assets/replay.mjs`) and asks the data routes.
"""

import json
from typing import Any

from dash import html

from tracing.runs import RunInfo
from workbench.look.words import Words
from workbench.web import queries
from workbench.web.library import Library
from workbench.web.parts import attributes, fact, state_box, term
from workbench.web.titles import run_title
from workbench.web.views import (
    batch_strip,
    block_map,
    request_lives,
    stall,
    transport,
    why_card,
)


def page(library: Library, words: Words, run: str | None, search: str) -> html.Div:
    """The page of one run; without a name, of the newest. Raises TraceError if there is none."""
    name = run or library.newest()
    _, info = library.find(name)
    found = library.ask(name, queries.overview)
    return board(words, name, info, found)


def board(
    words: Words, name: str, info: RunInfo, found: dict[str, Any], *, compact: bool = False
) -> html.Div:
    """Everything about a run: header, views, why card, transport; `compact`: as a guest on another page."""
    facts, config = found["facts"], json.loads((found["run"] or {}).get("config") or "{}")
    engine = _engine(info, found)
    modelled = config.get("clock") == "modelled"
    timelines = html.Section(
        [
            html.Div(
                html.Canvas(**attributes(data_layer="axis", aria_hidden="true")), className="axis"
            ),
            batch_strip.view(
                words, engine.get("token_budget") or config.get("max_num_batched_tokens")
            ),
            request_lives.view(words),
            stall.view(words, modelled=modelled),
        ],
        className="card timelines",
    )
    columns = [
        timelines,
        block_map.view(words, facts["num_blocks"], facts["block_size"]),
        why_card.view(words),
    ]
    return html.Div(
        [
            header(words, name, info, found, config),
            _banner(words),
            html.Div(columns, className="board"),
            *_states(words, engine),
            html.Div([html.B(), html.Span()], className="tip", hidden=True, role="tooltip"),
            html.Div(className="unseen", role="status", **attributes(data_say="step")),
            _table(words),
            transport.view(words, name, facts),
        ],
        className="replay compact" if compact else "replay",
        **attributes(
            data_mount="replay",
            data_run=name,
            data_state="loading",
            **({"data_compact": "true"} if compact else {}),
        ),
    )


def header(
    words: Words, name: str, info: RunInfo, found: dict[str, Any], config: dict[str, Any]
) -> html.Header:
    """The run's name, what it ran on, and the clock."""
    facts = found["facts"]
    engine = _engine(info, found)
    follows = config.get("versions", {}).get(f"{facts['policy']} followed")
    pairs = [
        ("model", facts["model"]),
        ("policy", facts["policy"]),
        ("follows", f"{facts['policy']} {follows}" if follows else None),
        (
            "pool",
            words("web.fact.blocks", n=f"{facts['num_blocks'] - 1:,}", size=facts["block_size"])
            if facts["num_blocks"]
            else None,
        ),
        # Before the first step, what the core said of itself.
        (
            "budget",
            _said(
                words, "tokens", engine.get("token_budget") or config.get("max_num_batched_tokens")
            ),
        ),
        (
            "sequences",
            _said(words, "atmost", engine.get("max_num_seqs") or config.get("max_num_seqs")),
        ),
        ("level", _said(words, "levels", engine.get("min_level"))),
    ]
    told = [fact(term(words, label), value) for label, value in pairs if value is not None]
    more = html.Details(
        [html.Summary(words("web.fact.more", n=len(told))), html.Dl(told, className="facts")],
        className="morefacts",
    )
    return html.Header(
        [
            html.H1(run_title(words, name, info), title=name),
            html.Dl(told, className="facts"),
            more,
            _lives_of_core(words),
            transport.clock(words),
        ],
        className="runhead",
    )


def _engine(info: RunInfo, found: dict[str, Any]) -> dict[str, Any]:
    """The engine that the page opens at; {}: there is none yet."""
    return next(iter(found["engines"][:: 1 if info.state == "sealed" else -1]), {})


def _lives_of_core(words: Words) -> html.Label:
    """Which life of the core to look at; the browser knows which there are, and shows it if there are two."""
    label = words("web.fact.life")
    menu = html.Select(**attributes(data_do="engine", aria_label=label))
    return html.Label([html.Span(label), menu], className="menu", hidden=True)


def _said(words: Words, name: str, number: int | None) -> str | None:
    return None if number is None else words(f"web.fact.{name}", n=f"{number:,}")


def _banner(words: Words) -> html.Div:
    """What hangs over the views: a broken line, an engine that was started again, a filter."""
    lost = html.Div([html.I(), html.Span()], className="banner lost", hidden=True, role="status")
    restart = html.Div(
        [html.I(), html.Span(), html.A()], className="banner restart", hidden=True, role="status"
    )
    chosen = html.Div(
        [
            html.Span(),
            html.Button(words("web.filter.zoom"), **attributes(data_do="zoomto")),
            html.Button(words("web.filter.clear"), **attributes(data_do="clear")),
        ],
        className="filter",
        hidden=True,
    )
    return html.Div([lost, restart, chosen], className="hangers")


def _states(words: Words, engine: dict[str, Any]) -> list[html.Div]:
    """Instead of the views: loading, waiting for the first step, no steps, no answer."""
    shapes = html.Div(
        [html.I(className="shape big"), html.I(className="shape"), html.I(className="shape short")],
        className="statebox on-loading",
        **attributes(aria_label=words("web.state.loading")),
    )
    failed = html.Div(
        [html.B(words("web.state.error")), html.P(**attributes(data_text="error"))],
        className="statebox alarm on-error",
    )
    return [shapes, failed, state_box(words, "empty"), state_box(words, "waiting")]


def _table(words: Words) -> html.Table:
    """The cursor's step as a table, for those who do not see the pictures."""
    names = ("request", "phase", "tokens", "computed")
    head = html.Thead(html.Tr([html.Th(words(f"web.table.{name}")) for name in names]))
    return html.Table(
        [html.Caption(words("web.table.caption")), head, html.Tbody()],
        className="unseen",
        **attributes(data_table="step"),
    )
