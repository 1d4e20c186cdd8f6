"""What every page has: the bar on top, the address that decides what is under it, and the list of keys.

    /                    start: runs and live servers        /metrics/RUN     numbers
    /replay/RUN?step=65  the run itself                      /sql/RUN?q=...   any question
    /playground          chat with the served model         /learn/11        lessons
    /drill/concept/q02   interview practice

Invariant: the address alone decides what is shown; language and theme come with the browser's cookies.
"""

import asyncio
from collections.abc import Callable
from urllib.parse import quote, unquote

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from tracing.errors import TraceError
from workbench.look.words import Words
from workbench.web.desk import Desk
from workbench.web.library import Library
from workbench.web.pages import drill, learn, metrics, playground, replay, sql, start
from workbench.web.parts import attributes, request_theme, request_words, said

NAV = ("runs", "replay", "metrics", "sql", "playground", "learn", "drill")
Page = Callable[[Library, Words, str | None, str], Component]
PAGES: dict[str, Page] = {
    "": start.page,
    "replay": replay.page,
    "metrics": metrics.page,
    "sql": sql.page,
    "playground": playground.page,
    "learn": learn.page,
    "drill": drill.page,
}


def set_up(dash: Dash, library: Library, desk: Desk) -> None:
    """Give the app its layout and all callbacks."""
    dash.layout = layout
    start.register(dash, library)
    metrics.register(dash, library)
    sql.register(dash, library, desk)
    drill.register(dash, library)

    @dash.callback(
        Output("page", "children"),
        Output("nav", "children"),
        Input("address", "pathname"),
        State("address", "search"),
    )
    async def show(path: str | None, search: str | None) -> tuple[Component, list[Component]]:
        words = request_words()
        kind, run = _parse(path)
        page = await asyncio.to_thread(_lay_out, library, words, kind, run, search or "")
        known = await asyncio.to_thread(_a_run, library, run)
        return page, nav(words, kind, known)


def layout() -> dmc.MantineProvider:
    """The frame; the page itself comes by callback."""
    words = request_words()
    return dmc.MantineProvider(
        [
            dcc.Location(id="address", refresh="callback-nav"),
            dcc.Store(id="theme", data=request_theme()),
            html.A(words("web.nav.skip"), href="#page", className="skip"),
            html.Header(
                [
                    dcc.Link([html.I(className="logo"), "Cutaway"], href="/", className="brand"),
                    html.Nav(id="nav", **attributes(aria_label=words("web.nav.pages"))),
                    _tools(words),
                ],
                className="topbar",
            ),
            html.Div(
                className="offline", hidden=True, role="alert", **attributes(data_mount="pulse")
            ),
            html.Main(id="page", tabIndex="-1"),
            _help(words),
        ],
        theme={
            "fontFamily": "var(--font)",
            "fontFamilyMonospace": "var(--mono)",
            "primaryColor": "dark",
            "defaultRadius": 6,
        },
    )


def nav(words: Words, kind: str, run: str | None) -> list[Component]:
    """Links to the pages; those about a run lead to the one that is shown, or to the newest."""
    links: list[Component] = []
    for name in NAV:
        about_run = name in ("replay", "metrics", "sql")
        if about_run and run is None:
            continue
        href = "/" if name == "runs" else f"/{name}/{quote(run or '')}" if about_run else f"/{name}"
        here = " here" if (kind or "runs") == name else ""
        links.append(dcc.Link(words(f"web.nav.{name}"), href=href, className=f"nav-{name}{here}"))
    return links


def _tools(words: Words) -> html.Div:
    other = "en" if words.lang == "zh" else "zh"
    find = words("web.nav.find")
    return html.Div(
        [
            html.Label(
                html.Kbd("/"), className="find", title=find, **attributes(data_mount="find")
            ),
            html.Button(
                [html.Span("EN"), html.I("·"), html.Span("中文")],
                className=f"lang {words.lang}",
                title=words("web.nav.language"),
                **attributes(data_global="lang", data_lang=other),
            ),
            html.Button(
                html.I(className="themeicon"),
                title=words("web.nav.theme"),
                **attributes(data_global="theme", aria_label=words("web.nav.theme")),
            ),
            html.Button(
                html.Kbd("?"),
                title=words("web.nav.help"),
                **attributes(data_global="help", aria_label=words("web.nav.help")),
            ),
        ],
        className="tools",
    )


def _help(words: Words) -> html.Dialog:
    return html.Dialog(
        [
            html.H2(words("web.nav.help")),
            html.Div(className="keys"),
            html.P(words("web.key.note"), className="note"),
            html.Button(words("web.key.closehelp"), **attributes(data_global="close-help")),
        ],
        id="help",
    )


def _parse(path: str | None) -> tuple[str, str | None]:
    parts = (path or "/").strip("/").split("/")
    return parts[0], unquote("/".join(parts[1:])) if len(parts) > 1 else None


def _lay_out(library: Library, words: Words, kind: str, run: str | None, search: str) -> Component:
    """The page, or what went wrong with it."""
    try:
        return PAGES.get(kind, start.page)(library, words, run, search)
    except TraceError as error:
        home = dcc.Link(words("web.nav.runs"), href="/", className="button primary")
        text = [html.B(words("web.state.error")), html.P(said(words, error)), home]
        return html.Div(html.Div(text, className="statebox alarm"), className="plainpage")


def _a_run(library: Library, run: str | None) -> str | None:
    names = [name for name, _, _ in library.runs()]
    return run if run in names else names[0] if names else None
