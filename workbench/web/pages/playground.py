"""The playground: chat with the served model, and watch what the engine does for that one request.

Left the conversation, right the run that the server records, live, following the request by its hue. The chat
goes through this server (`live.py`), so the page needs nobody else's permission.

Invariant: only servers that announced themselves on this machine can be talked to. The talking itself is
done by `assets/chat.mjs`; the page has no callbacks.
"""

from typing import Any
from urllib.parse import parse_qs

from dash import dcc, html
from dash.development.base_component import Component

from workbench.look.words import Words
from workbench.servers import running_servers
from workbench.web import queries
from workbench.web.library import Library
from workbench.web.live import describe
from workbench.web.pages import replay
from workbench.web.parts import attributes

CHOICES = {"temperature": (0.7, 0.0, 0.3, 1.0), "max_tokens": (200, 40, 100, 400)}
"""Settings and their values, the usual one first."""


def page(library: Library, words: Words, run: str | None, search: str) -> html.Div:
    """Chat with one server, the newest unless `?server=` names another; none is a designed state."""
    servers = [describe(server) for server in running_servers()]
    asked = parse_qs(search.lstrip("?")).get("server", [""])[0]
    chosen = next((s for s in servers if str(s["pid"]) == asked), servers[-1] if servers else None)
    if chosen is None:
        return _nobody(words)
    return html.Div(
        [_chat(words, chosen, servers), _pictures(library, words, chosen)], className="playground"
    )


def _nobody(words: Words) -> html.Div:
    text: list[Component] = [
        html.B(words("web.chat.nobody")),
        html.P(words("web.chat.nobody_why")),
        html.Pre("cutaway serve --web"),
    ]
    box = html.Div(text, className="statebox", **attributes(data_mount="awaiting"))
    return html.Div(box, className="plainpage")


def _chat(words: Words, server: dict[str, Any], servers: list[dict[str, Any]]) -> html.Section:
    others = [
        dcc.Link(s["model"], href=f"/playground?server={s['pid']}", className="other")
        for s in servers
        if s["pid"] != server["pid"]
    ]
    head = html.Header([html.H2(server["model"]), html.Code(server["url"]), *others])
    form = html.Form(
        [
            html.Textarea(
                rows="2",
                placeholder=words("web.chat.ask"),
                **attributes(aria_label=words("web.chat.ask")),
            ),
            html.Div(
                [
                    *(_setting(words, name) for name in CHOICES),
                    html.Button(
                        words("web.chat.new"), type="button", **attributes(data_do="newchat")
                    ),
                    html.Button(
                        words("web.chat.stop"),
                        type="button",
                        className="stop",
                        **attributes(data_do="stopanswer"),
                    ),
                    html.Button(words("web.chat.send"), type="submit", className="primary"),
                ],
                className="settings",
            ),
        ]
    )
    gone = html.Div(
        [html.B(words("web.chat.gone")), html.P(words("web.chat.gone_why"))],
        className="statebox alarm gone",
        hidden=True,
        role="alert",
    )
    log = html.Div(className="chatlog", role="log", **attributes(aria_live="polite"))
    about = attributes(
        data_mount="chat",
        data_server=str(server["pid"]),
        data_model=server["model"],
        **({"data_run": server["run"]} if server["run"] else {}),
    )
    return html.Section([head, log, gone, form], className="card chat", **about)


def _setting(words: Words, name: str) -> html.Label:
    options = [html.Option(f"{value:g}", value=f"{value:g}") for value in CHOICES[name]]
    choice = html.Select(options, **attributes(data_set=name))
    return html.Label([html.Span(words(f"web.chat.{name}")), choice], className="menu")


def _pictures(library: Library, words: Words, server: dict[str, Any]) -> Component:
    """The run behind the server, in the replay page's own form; or how to have it recorded."""
    if server["run"] is None:
        text = [html.B(words("web.chat.untraced")), html.P(words("web.chat.untraced_why"))]
        return html.Div(text, className="statebox")
    _, info = library.find(server["run"])
    found = library.ask(server["run"], queries.overview)
    return replay.board(words, server["run"], info, found, compact=True)
