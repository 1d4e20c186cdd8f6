"""The metrics page: what a run did in numbers, each with the query that made it.

    tiles       throughput, budget, hit rate, KV use, preemptions
    latencies   one row per metric: samples, mean, percentiles, distribution

A percentile that cannot be estimated from so few samples says so; it is not replaced by the maximum.

Invariant: every number comes from a file of `tracing/sql`, and links to its text.
"""

import asyncio
from typing import Any

from dash import Dash, Input, Output, State, dcc, html, no_update
from dash.development.base_component import Component

from tracing.queries import query_text
from tracing.reader import Run
from tracing.runs import RunInfo
from workbench.look.words import Words
from workbench.web import figures, queries
from workbench.web.library import Library
from workbench.web.parts import (
    attributes,
    count,
    duration,
    request_words,
    sql_link,
    state_box,
    term,
)
from workbench.web.titles import run_title

METRICS = ("ttft_ns", "itl_ns", "tpot_ns", "queue_ns", "e2e_ns")
PERCENTILES = ("p50", "p95", "p99")
NEEDED = {"p95": 20, "p99": 100}
"""Samples from which a percentile can be estimated: at least one lies beyond it."""
COLUMNS = 600
LOOK_MS = 3_000
Seen = list[int]
"""Requests, open ones, steps and tokens that the numbers on the screen were made of."""


def page(library: Library, words: Words, run: str | None, search: str) -> html.Div:
    """Numbers of one run; without a name, of the newest. Raises TraceError if there is none."""
    name = run or library.newest()
    _, info = library.find(name)
    body, seen = library.ask(name, lambda opened: numbers(words, name, info, opened))
    head = html.Header(
        [
            html.H1(run_title(words, name, info), title=name),
            html.Small(words("web.metrics.what")),
        ],
        className="runhead",
    )
    sealed = info.state == "sealed"
    return html.Div(
        [
            head,
            dcc.Store(id="metrics-run", data=name),
            dcc.Store(id="metrics-seen", data=seen),
            dcc.Interval(id="metrics-look", interval=LOOK_MS, disabled=sealed),
            html.Div(body, id="metrics-numbers", className="metricsbody"),
            html.Div(id="charts", className="charts"),
        ],
        className="metrics",
    )


def register(dash: Dash, library: Library) -> None:
    """Charts follow the theme; a live run is looked at again until it is sealed."""

    @dash.callback(
        Output("metrics-numbers", "children"),
        Output("metrics-seen", "data"),
        Output("metrics-look", "disabled"),
        Input("metrics-look", "n_intervals"),
        State("metrics-run", "data"),
        State("metrics-seen", "data"),
        prevent_initial_call=True,
    )
    async def look(_: int | None, run: str, before: Seen) -> Any:
        words = request_words()

        def ask() -> tuple[list[Component], Seen, bool]:
            _, info = library.find(run)
            body, seen = library.ask(run, lambda opened: numbers(words, run, info, opened, before))
            return body, seen, info.state == "sealed"

        body, seen, sealed = await asyncio.to_thread(ask)
        if seen == before:  # nothing happened: nothing is drawn again
            return no_update, no_update, sealed
        return body, seen, sealed

    @dash.callback(
        Output("charts", "children"),
        Input("theme", "data"),
        Input("metrics-seen", "data"),
        State("metrics-run", "data"),
    )
    async def draw(theme: str | None, seen: Seen | None, run: str | None) -> list[Component]:
        if run is None or not seen or not any(seen):
            return []
        words = request_words()
        return await asyncio.to_thread(
            library.ask, run, lambda opened: charts(words, run, opened, theme or "light")
        )


def numbers(
    words: Words, name: str, info: RunInfo, run: Run, before: Seen | None = None
) -> tuple[list[Component], Seen]:
    """Tiles and latencies, or why there are none; and what they were made of (made only if that is new)."""
    (facts,) = run.query("summary").dicts()
    seen = [facts["requests"], facts["open_requests"], facts["steps"], facts["output_tokens"]]
    if seen == before:
        return [], seen
    if not any(seen):
        why = "norequest" if info.state != "sealed" else "empty"
        return [state_box(words, why)], seen
    return [
        html.Section(tiles(words, name, run, facts), className="tiles"),
        html.Section(
            [
                html.Header(
                    [
                        html.H2(words("web.metrics.latency")),
                        html.Small(words("web.metrics.honest")),
                        _source(words, name, "latency_percentiles"),
                    ]
                ),
                latency_table(words, run.query("latency_percentiles").dicts()),
            ],
            className="card",
        ),
    ], seen


def tiles(words: Words, name: str, run: Run, facts: dict[str, Any]) -> list[Component]:
    """The key numbers, each with its query."""
    (rate,) = run.query("throughput").dicts()
    made: list[Component] = [
        _tile(words, name, "output", _per_second(words, rate["output_tokens_per_s"]), "throughput"),
        _tile(words, name, "prompt", _per_second(words, rate["prompt_tokens_per_s"]), "throughput"),
        _tile(words, name, "requests", count(facts["requests"]), "summary"),
    ]
    uses = run.query("budget_use").dicts()
    if uses:
        made.append(_tile(words, name, "budget", _each(uses, "share"), "budget_use"))
        rows = " · ".join(f"{use['mean_rows']:.1f}" for use in uses)
        made.append(_tile(words, name, "rows", rows, "budget_use"))
    hits = [row for row in run.query("hit_rate").dicts() if not row["resumed"]]
    if hits:
        made.append(_tile(words, name, "hits", _share(hits[0]["rate"]), "hit_rate"))
    pools = run.query("kv_use").dicts()
    if pools:
        made.append(_tile(words, name, "kv", _each(pools, "mean"), "kv_use"))
        made.append(_tile(words, name, "kvpeak", _each(pools, "peak"), "kv_use"))
    alarm = bool(facts["preemptions"])
    made.append(_tile(words, name, "preemptions", count(facts["preemptions"]), "summary", alarm))
    if facts["lost_records"]:
        made.append(_tile(words, name, "lost", count(facts["lost_records"]), "summary", True))
    return made


def _tile(
    words: Words, run: str, name: str, value: str, query: str, alarm: bool = False
) -> html.Div:
    return html.Div(
        [
            html.Div(term(words, name)),
            html.B(value, className="alarm" if alarm else ""),
            _source(words, run, query),
        ],
        className="card tile",
        **attributes(data_metric=name),
    )


def latency_table(words: Words, rows: list[dict[str, Any]]) -> html.Div:
    """One row per metric; what cannot be estimated says from how many samples it could."""
    found = {row["metric"]: row for row in rows}
    names = ("n", "mean", *PERCENTILES, "max")
    head = html.Tr([html.Th(), *(html.Th(words(f"web.metrics.{name}")) for name in names)])
    body = []
    for metric in METRICS:
        row = found.get(metric)
        if row is None:
            continue
        cells = [html.Td(count(row["n"])), html.Td(duration(words, row["mean"]))]
        cells += [_percentile(words, row, name) for name in PERCENTILES]
        cells.append(html.Td(duration(words, row["max"])))
        label = html.Th(term(words, metric.removesuffix("_ns")), scope="row")
        body.append(html.Tr([label, *cells], **attributes(data_metric=metric)))
    table = html.Table([html.Thead(head), html.Tbody(body)], className="numbers")
    return html.Div(table, className="scrolls")


def _percentile(words: Words, row: dict[str, Any], name: str) -> html.Td:
    if row[name] is not None:
        return html.Td(duration(words, row[name]))
    why = words("web.metrics.needs", n=NEEDED[name], has=row["n"])
    return html.Td(words("web.metrics.notestimable"), className="faint", title=why)


def charts(words: Words, name: str, run: Run, theme: str) -> list[Component]:
    """Distributions of the latencies, and load over the run."""
    rows = run.query("latency_buckets").dicts()
    percentiles = {row["metric"]: row for row in run.query("latency_percentiles").dicts()}
    made: list[Component] = []
    for metric in METRICS:
        told = percentiles.get(metric)
        if told is None:
            continue
        unit, size = ("s", 1e9) if told["mean"] > 2e9 else ("ms", 1e6)
        mine = [
            {"lo": r["lo_ns"] / size, "hi": r["hi_ns"] / size, "n": r["n"]}
            for r in rows
            if r["metric"] == metric
        ]
        marks = {p: told[p] / size for p in PERCENTILES if told[p]}
        figure = figures.histogram(mine, theme, unit=unit, marks=marks)
        label = metric.removesuffix("_ns")
        made.append(_chart(words, name, label, figure, "latency_buckets"))
    return made + load_charts(words, name, run, theme)


def load_charts(words: Words, name: str, run: Run, theme: str) -> list[Component]:
    """Requests, tokens and blocks over the steps of the engine that went furthest."""
    found = queries.overview(run)["engines"]
    if not found:
        return []
    engine = max(found, key=lambda one: one["last_step"] - one["first_step"])
    span = {"engine": engine["engine_id"], "a": engine["first_step"], "b": engine["last_step"]}
    told = queries.bins(run, **span, most=COLUMNS)
    rows = [dict(zip(told["columns"], row, strict=True)) for row in told["rows"]]
    groups = {
        "load": {"running": words("web.term.running"), "waiting": words("web.term.waiting")},
        "mix": {"prefill": words("web.batch.prefill"), "decode": words("web.batch.decode")},
        "pool": {"used_blocks": words("web.term.used")},
    }
    made: list[Component] = []
    for group, lines in groups.items():
        figure = figures.over_steps(rows, theme, x="step", lines=lines)
        made.append(
            _chart(words, name, group, figure, "batch_strip" if group == "mix" else "kv_use")
        )
    return made


def _chart(words: Words, run: str, name: str, figure: figures.Figure, query: str) -> html.Section:
    height = {"height": f"{figure['layout']['height']}px"}
    graph = dcc.Graph(
        figure=figure, config={"displayModeBar": False, "responsive": True}, style=height
    )
    head = html.Header(
        [
            html.H2(words(f"web.chart.{name}")),
            html.Small(words(f"web.chart.{name}_what")),
            _source(words, run, query),
        ]
    )
    return html.Section([head, graph], className="card chart")


def _source(words: Words, run: str, query: str) -> dcc.Link:
    return sql_link(
        run,
        query_text(query),
        "SQL",
        className="source",
        title=words("web.metrics.source", name=query),
    )


def _per_second(words: Words, value: float | None) -> str:
    return "–" if value is None else words("web.unit.per_s", n=f"{value:,.1f}")


def _each(engines: list[dict[str, Any]], name: str) -> str:
    """A share of each engine: a core that was started again is another one."""
    return " · ".join(_share(engine[name]) for engine in engines)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value * 100:.0f} %"
