"""The bar at the bottom: play, step, jump, speed, and the whole run in one strip.

Everything here is a plain control with a `data-do` name; `assets/transport.mjs` gives it its meaning and
`assets/keys.mjs` its key. Menus are the browser's own, so they work by keyboard and by touch as people know
them.
"""

from typing import Any

from dash import html
from dash.development.base_component import Component

from workbench.look.words import Words
from workbench.web.parts import attributes, sql_link

SPEEDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 100)
KINDS = ("preemption", "eviction", "miss", "first_token")


def view(words: Words, run: str, facts: dict[str, Any]) -> html.Footer:
    """The transport of a run; `facts`: query summary."""
    num_steps, num_preempted = facts["steps"], facts["preemptions"]
    buttons = html.Div(
        [
            _button(words, "back"),
            html.Button(
                html.I(className="playicon"),
                className="play",
                **attributes(data_do="play", aria_label=words("web.play.play")),
            ),
            _button(words, "forward"),
            _menu(words, "speed", [(str(s).removesuffix(".0"), f"{s}×") for s in SPEEDS]),
            html.Div(
                [
                    _button(words, "previous"),
                    _menu(
                        words,
                        "kind",
                        [(kind, words(f"web.kind.{kind}")) for kind in KINDS],
                        words("web.play.next"),
                    ),
                    _button(words, "jump"),
                ],
                className="jumper",
            ),
        ],
        className="buttons",
    )
    told = words("web.scrub.preemptions", n=f"{num_preempted:,}") if num_preempted else ""
    red = html.Span(told, className="alarm", **attributes(data_text="numpreempted"))
    strip = html.Div(
        [
            html.Div(html.Canvas(**attributes(aria_hidden="true")), className="scrubber"),
            html.Div(
                [
                    html.Span([words("web.scrub.what"), " ", red]),
                    html.Span(className="said", role="status", **attributes(data_text="said")),
                    html.Span(
                        words("web.scrub.steps", n=f"{num_steps:,}"),
                        **attributes(data_text="numsteps"),
                    ),
                ],
                className="scrubnote",
            ),
        ],
        className="strip",
    )
    right = _right(words, run, facts["lost_records"])
    return html.Footer([buttons, strip, right], className="transport")


def _right(words: Words, run: str, num_lost: int) -> html.Div:
    """Axis, badge, and beside it how much is missing, if anything is."""
    axis = html.Div(
        [
            html.Button(
                words("web.axis.bystep"), **attributes(data_do="axis-step", aria_pressed="true")
            ),
            html.Button(
                words("web.axis.bytime"), **attributes(data_do="axis-time", aria_pressed="false")
            ),
        ],
        className="segmented",
        role="group",
        **attributes(aria_label=words("web.axis.label")),
    )
    badge = html.Button(
        [html.I(), html.Span(words("web.badge.replay"))],
        className="badge",
        **attributes(data_do="live", data_kind="replay"),
    )
    parts: list[Component] = [html.Span(className="goto"), axis, badge]
    if num_lost:
        text = words("web.badge.missing", n=f"{num_lost:,}")
        parts.append(sql_link(run, "from ingest where lost_records > 0", text, className="alarm"))
    return html.Div(parts, className="right")


def _button(words: Words, name: str) -> html.Button:
    text = words(f"web.play.{name}")
    return html.Button(
        html.I(className=f"icon {name}"), title=text, **attributes(data_do=name, aria_label=text)
    )


def _menu(
    words: Words, name: str, options: list[tuple[str, str]], before: str | None = None
) -> html.Label:
    label: list[Component] = [html.Span(before)] if before else []
    choices = [html.Option(text, value=value) for value, text in options]
    select = html.Select(choices, **attributes(data_do=name, aria_label=words(f"web.play.{name}")))
    return html.Label([*label, select], className="menu")


def clock(words: Words) -> html.Div:
    """Step and time, in fixed-width digits: nothing shifts while playing."""
    return html.Div(
        [
            html.Span([words("web.clock.step"), " "]),
            html.B("0", **attributes(data_clock="step")),
            html.Span(" "),
            html.Span(**attributes(data_clock="of")),
            html.B("0.000", className="time", **attributes(data_clock="time")),
            html.Span(" "),
            html.Span(**attributes(data_clock="unit")),
        ],
        className="clock",
    )
