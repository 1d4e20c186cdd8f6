"""The SQL page: any question to a run, the queries that metrics are made of, and what the tables are.

One statement that reads, no files, no network, no extensions, a limit on rows (`tracing.store`); answered at
the desk, by a process that ends with its limits of time and memory, with this page, and with the next
question that this page asks.

Invariant: the text goes to the database as it is, and comes back as a table or as the database's own
complaint.
"""

import asyncio
import secrets
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

import dash_ag_grid as dag
from dash import ALL, Dash, Input, Output, State, ctx, dcc, html, no_update
from dash.development.base_component import Component
from dash.exceptions import PreventUpdate

from tracing.errors import TraceError
from tracing.parquet import distinct
from tracing.queries import query_names, query_text
from tracing.reader import Run
from tracing.result import Result
from workbench.look.words import Words
from workbench.web import figures
from workbench.web.desk import Desk
from workbench.web.library import Library
from workbench.web.parts import attributes, request_words, said
from workbench.web.titles import run_title

START = """select step, num_rows, num_tokens, num_running, num_waiting
from step
order by num_tokens desc
limit 20"""
MAX_SHOWN = 10_000
MAX_CELL = 2_000
"""Characters of a cell in the grid; a download has them all."""
METRICS = (
    *("summary", "latency_percentiles", "latency_buckets", "throughput"),
    *("budget_use", "hit_rate", "kv_use", "requests", "telling_decisions"),
)
"""Saved queries that say something about a whole run."""
SAVED = {
    "engine": "0", "n": "20", "step": "0", "a": "0", "b": "100", "done": "20",
    "t_ns": "9223372036854775807", "request": "(select min(request_id) from request)",
    "k_seq": "-1", "n_seq": "9223372036854775807",
}  # fmt: skip
"""What parameters of saved queries are replaced by, so that each runs as it stands."""


def page(library: Library, words: Words, run: str | None, search: str) -> html.Div:
    """The page of one run; `?q=` is typed in. Raises TraceError if there is no run."""
    name = run or library.newest()
    _, info = library.find(name)
    asked = parse_qs(search.lstrip("?")).get("q", [START])[0]
    asker = secrets.token_hex(8)
    tables = library.ask(name, schema)
    head = html.Header(
        [html.H1(run_title(words, name, info), title=name), html.Small(words("web.sql.what"))],
        className="runhead",
    )
    side = html.Aside(
        [
            html.Section([html.H2(words("web.sql.saved")), _saved(words)], className="card"),
            html.Section(
                [html.H2(words("web.sql.schema")), browser(words, tables)], className="card schema"
            ),
        ],
        className="sqlside",
    )
    main = html.Div(
        [_editor(words, asked, asker), html.Div(id="sql-answer", className="answer")],
        className="sqlmain",
    )
    stores = [dcc.Store(id="sql-of", data=name), dcc.Store(id="sql-asker", data=asker)]
    return html.Div(
        [head, html.Div([main, side], className="sqlboard"), *stores], className="sqlpage"
    )


def register(dash: Dash, library: Library, desk: Desk) -> None:
    """Running a question, and choosing a saved one."""

    @dash.callback(
        Output("sql-text", "value"),
        Input({"type": "saved", "name": ALL}, "n_clicks"),
        prevent_initial_call=True,
    )
    async def choose(clicks: list[int | None]) -> str:
        if not any(clicks) or not isinstance(ctx.triggered_id, dict):
            raise PreventUpdate
        return saved_text(str(ctx.triggered_id["name"]), request_words().lang)

    @dash.callback(
        Output("sql-answer", "children"),
        Output("sql-answer", "data-answered"),
        Input("sql-run", "n_clicks"),
        State("sql-text", "value"),
        State("sql-of", "data"),
        State("sql-asker", "data"),
        State("theme", "data"),
    )
    async def run_it(
        clicks: int | None, text: str | None, run: str, asker: str, theme: str | None
    ) -> tuple[Any, int]:
        asked = clicks or 0  # goes back with the answer: `editor.mjs` waits for the last one
        if not text:
            return no_update, asked
        words = request_words()
        try:
            run_dir, _info = await asyncio.to_thread(library.find, run)
            result = await desk.ask(run_dir, text, asker=asker, limit=MAX_SHOWN)
        except TraceError as error:
            return [refusal(words, error)], asked
        return answer(words, run, text, result, theme or "light"), asked


def refusal(words: Words, error: TraceError) -> html.Div:
    """Why there is no answer: ours in the user's language, the database's as it said it."""
    if error.key is None:
        said_it: list[Component] = [
            html.B(words("web.sql.refused")),
            html.Pre(str(error)[:MAX_CELL]),
        ]
    else:
        said_it = [html.B(words("web.state.error")), html.P(said(words, error))]
    return html.Div(said_it, className="statebox alarm")


def answer(words: Words, run: str, text: str, result: Result, theme: str) -> list[Component]:
    """Rows as a table, the obvious chart of them, and the way to take them along."""
    shown = words("web.sql.cut" if result.truncated else "web.sql.rows", n=f"{len(result.rows):,}")
    result = cut(result)
    figure = figures.quick_chart(distinct(result.columns), result.rows, theme)
    bar = html.Header(
        [
            html.Span(shown, className="note", id="sql-count"),
            *(
                html.Button(
                    words(f"web.sql.{kind}"),
                    className="button",
                    **attributes(data_download=kind, data_run=run, data_sql=text),
                )
                for kind in ("csv", "parquet")
            ),
        ]
    )
    parts: list[Component] = [bar, grid(result)]
    if figure is not None:
        height = {"height": f"{figure['layout']['height']}px"}
        graph = dcc.Graph(
            figure=figure, config={"displayModeBar": False, "responsive": True}, style=height
        )
        inside: list[Component] = [html.Summary(words("web.sql.chart")), graph]
        if (size := figures.bucket(len(result.rows))) > 1:
            inside.append(html.P(words("web.sql.thinned", n=f"{size:,}"), className="note"))
        parts.append(html.Details(inside, open=len(result.rows) > 2))
    return parts


def cut(result: Result) -> Result:
    """The rows as a grid can show them: numbers, and texts of at most `MAX_CELL` characters."""

    def plain(value: Any) -> Any:
        if isinstance(value, int | float | None):
            return value
        text = str(value)
        return text if len(text) <= MAX_CELL else text[:MAX_CELL] + "…"

    rows = [tuple(map(plain, row)) for row in Result.from_json(result.to_json()).rows]
    return replace(result, rows=rows)


def grid(result: Result) -> dag.AgGrid:
    """The rows in a grid that sorts and filters in the browser; `result`: cut."""
    names = [f"c{i}" for i in range(len(result.columns))]  # a column's own name may hold dots
    columns = [
        {
            "field": name,
            "headerName": column,
            "type": "rightAligned" if _is_numeric(result.rows, i) else None,
        }
        for i, (name, column) in enumerate(zip(names, result.columns, strict=True))
    ]
    rows = [dict(zip(names, row, strict=True)) for row in result.rows]
    return dag.AgGrid(
        id="sql-grid",
        columnDefs=columns,
        rowData=rows,
        defaultColDef={"sortable": True, "resizable": True, "filter": True, "minWidth": 90},
        columnSize="autoSize",
        dashGridOptions={
            "animateRows": False,
            "enableCellTextSelection": True,
            "rowHeight": 28,
            "headerHeight": 32,
        },
        className="grid",
        style={"height": f"{min(440, 74 + 28 * max(1, len(rows)))}px"},
    )


def schema(run: Run) -> list[tuple[str, list[tuple[str, str]]]]:
    """Tables and views with their columns, in the order of the schema file."""
    found = run.sql(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal"
        " ORDER BY table_oid, column_index"
    )
    tables: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in found.rows:
        tables.setdefault(table, []).append((column, kind))
    return list(tables.items())


def browser(words: Words, tables: list[tuple[str, list[tuple[str, str]]]]) -> html.Div:
    """The tables; clicking a name writes it into the editor."""
    return html.Div(
        [
            html.Details(
                [
                    html.Summary([_insert(table), html.Small(str(len(columns)))]),
                    html.Ul(
                        [
                            html.Li([_insert(name), html.Small(kind.lower())])
                            for name, kind in columns
                        ]
                    ),
                ]
            )
            for table, columns in tables
        ],
        className="tables",
    )


def saved_text(name: str, lang: str) -> str:
    """A saved query as it can be run: its parameters replaced by usual values."""
    text, values = query_text(name), {**SAVED, "lang": f"'{lang}'"}
    for parameter in sorted(values, key=len, reverse=True):
        text = text.replace(f"${parameter}", values[parameter])
    return text


def _saved(words: Words) -> html.Div:
    """Metrics first; what the screens ask besides is one click further."""
    others = [name for name in query_names() if name not in METRICS]
    more = html.Details([html.Summary(words("web.sql.screens")), _buttons(others)])
    return html.Div([_buttons(list(METRICS)), more])


def _buttons(names: list[str]) -> html.Div:
    buttons = [
        html.Button(name, id={"type": "saved", "name": name}, title=_first_sentence(name))
        for name in names
    ]
    return html.Div(buttons, className="saved")


def _first_sentence(name: str) -> str:
    return query_text(name).split("\n", 1)[0].removeprefix("-- ")


def _editor(words: Words, text: str, asker: str) -> html.Section:
    field = dcc.Textarea(
        id="sql-text", value=text, spellCheck=False, className="code",
    )  # fmt: skip
    return html.Section(
        [
            html.Div(
                [html.Pre(**attributes(aria_hidden="true")), field],
                className="editor",
                **attributes(data_mount="editor", data_asker=asker),
            ),
            html.Footer(
                [
                    html.Button(
                        [words("web.sql.run"), html.Kbd("Ctrl ⏎")],
                        id="sql-run",
                        className="primary",
                    ),
                    html.Button(
                        words("web.sql.stop"), id="sql-stop", className="button", hidden=True
                    ),
                    html.Small(words("web.sql.guard")),
                ]
            ),
        ],
        className="card",
    )


def _insert(name: str) -> html.Button:
    return html.Button(name, **attributes(data_insert=name))


def _is_numeric(rows: list[tuple[Any, ...]], i: int) -> bool:
    values = [row[i] for row in rows[:50] if row[i] is not None]
    return bool(values) and all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in values
    )
