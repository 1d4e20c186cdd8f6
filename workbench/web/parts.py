"""Small pieces that several pages lay out: words in the user's language, terms, numbers, links.

Invariant: text that came from a client is always a child, never markup; React escapes it.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import dash_mantine_components as dmc
from dash import dcc, get_app, html

from tracing.errors import TraceError
from workbench.look.words import LANGUAGES, Words


def attributes(**named: str) -> dict[str, Any]:
    """Attributes with a dash in their name: `data_do="play"` is `data-do="play"`."""
    return {name.replace("_", "-"): value for name, value in named.items()}


def request_words() -> Words:
    """The language of whoever calls back."""
    return words_of(_cookies())


def words_of(cookies: Mapping[str, str]) -> Words:
    """The language that this browser asked for: its cookie, else English."""
    lang = cookies.get("cutaway_lang", "en")
    return Words(lang if lang in LANGUAGES else "en")


def said(words: Words, error: TraceError) -> str:
    """What went wrong, in the user's language; what only the database can say stays as it said it."""
    return words(f"web.refusal.{error.key}") if error.key else str(error)


def request_theme() -> str:
    """The theme of whoever asks, from the browser's cookie; light before there is one."""
    return "dark" if _cookies().get("cutaway_theme") == "dark" else "light"


def term(words: Words, name: str, text: str | None = None) -> dmc.HoverCard:
    """A word of the trade, explained on hover and on focus (`web.gloss.<name>`)."""
    target = html.Span(text or words(f"web.term.{name}"), className="term", tabIndex="0")
    return dmc.HoverCard(
        [
            dmc.HoverCardTarget(target),
            dmc.HoverCardDropdown(html.P(words(f"web.gloss.{name}"), className="gloss")),
        ],
        width=280,
        openDelay=150,
        shadow="none",
    )


def fact(label: Any, value: Any) -> html.Div:
    """A label over its value."""
    return html.Div([html.Dt(label), html.Dd(value)], className="fact")


def sql_link(run: str, sql: str, text: str, **more: Any) -> dcc.Link:
    """A link to the SQL page with this question typed in."""
    query = urlencode({"q": sql})
    return dcc.Link(text, href=f"/sql/{quote(run)}?{query}", **more)


def canvas(layer: str, **more: Any) -> html.Canvas:
    """One layer of a picture; only the base layer is one to assistive technology."""
    hidden = {} if layer == "base" else attributes(aria_hidden="true")
    return html.Canvas(className=layer, **hidden, **more)


def state_box(words: Words, name: str, *more: Any) -> html.Div:
    """A designed state of a page or view: what is the matter, and what to do (`web.state.<name>`)."""
    return html.Div(
        [html.B(words(f"web.state.{name}")), html.P(words(f"web.state.{name}_why")), *more],
        className=f"statebox on-{name}",
    )


def duration(words: Words, ns: float | None) -> str:
    """Nanoseconds as a person says them, with their unit; an en dash if there are none."""
    if ns is None:
        return "–"
    for unit, size in (("min", 60e9), ("s", 1e9), ("ms", 1e6)):
        if abs(ns) >= size:
            number = f"{ns / size:.3g}" if abs(ns) < 1000 * size else f"{ns / size:,.0f}"
            return words(f"web.unit.{unit}", n=number)
    return words("web.unit.us", n=f"{ns / 1e3:.3g}")


def count(number: int | None) -> str:
    """A count with thousands parted."""
    return "–" if number is None else f"{number:,}"


def _cookies() -> Any:
    dash: Any = get_app()  # type: ignore[no-untyped-call]  # Dash leaves it untyped
    return dash.backend.request_adapter().cookies
