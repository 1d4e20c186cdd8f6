"""A lesson's picture as SVG: readable on light and dark ground, without any script or font of its own.

    python -m workbench.learn_picture 12 RUN      make picture.json and both drawings of a lesson anew

Colours are the palette's: a request has the hue that it has on every other screen. Red is
preemption only, hatch is what is held for nothing, light is phase: cached pale, prefill half,
decode full.

Invariant: a drawing is a function of the marks and the language; the committed files are exactly
that (tested).
"""

import sys
from html import escape
from pathlib import Path

import tracing
from lessons.content import Lesson, find_lesson
from lessons.picture import KINDS, Kind, Mark, Picture, draw_from, lane_name, save_picture
from lessons.text import LANGUAGES, Language, say
from workbench.look.palette import hue_index, palette

LEFT, WIDTH, TOP, LANE, GAP = 104, 592, 12, 20, 6
"""Room for lane names, of the plot, above it; height of a lane, and between lanes (units of SVG)."""
GROUP_GAP = 10
"""Extra room where the lanes of another engine begin."""
OPACITY: dict[Kind, float] = {"cached": 0.22, "prefill": 0.55, "decode": 1.0}


def draw_svg(lesson: Lesson, picture: Picture, language: Language) -> str:
    """The picture as an SVG document."""
    tops, bottom = _lane_tops(picture.lanes)
    scale = WIDTH / picture.end
    height = bottom + 64
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 16} {height}" role="img">',
        f"<title>{escape(lesson.picture.caption.in_(language))}</title>",
        f"<desc>{escape(picture.source)}</desc>",
        _style({hue_index(mark.request) for mark in picture.marks}),
    ]
    for lane, top in tops.items():
        name = escape(lane_name(lane, language))
        parts.append(
            f'<text class="n" x="{LEFT - 8}" y="{top + 14}" text-anchor="end">{name}</text>'
        )
    parts += [_mark(mark, tops[mark.lane], scale) for mark in picture.marks]
    parts += _axis(picture.end, scale, bottom, lesson.picture.axis.in_(language))
    parts += _legend({mark.kind for mark in picture.marks}, bottom + 46, language)
    return "\n".join([*parts, "</svg>", ""])


def _lane_tops(lanes: list[str]) -> tuple[dict[str, int], int]:
    """Where each lane begins, and where the last one ends."""
    tops, y, group = {}, TOP, lanes[0].rpartition(" ")[0]
    for lane in lanes:
        if lane.rpartition(" ")[0] != group:
            group = lane.rpartition(" ")[0]
            y += GROUP_GAP
        tops[lane] = y
        y += LANE + GAP
    return tops, y


def _style(hues: set[int]) -> str:
    """Colours for both grounds; the viewer's preference chooses."""
    colours = palette()

    def rules(theme: str) -> str:
        web = colours["web"][theme]
        named = "".join(f".h{i}{{color:{colours['hues'][theme][i]}}}" for i in sorted(hues))
        return (
            f"{named}.n{{fill:{web['ink2']}}}.l{{fill:{web['ink']}}}.on{{fill:{web['bg']}}}"
            f".g{{stroke:{web['line2']};color:{web['ink3']}}}.red{{fill:{web['red']}}}"
        )

    return (
        "<style>text{font:12px system-ui,sans-serif}.l,.on,.red{font-size:11px}rect,path{fill:currentColor}"
        f".w{{fill:url(#w)}}.q{{fill:none;stroke:currentColor;stroke-width:1.5}}{rules('light')}"
        f"@media(prefers-color-scheme:dark){{{rules('dark')}}}</style>"
        '<defs><pattern id="w" width="5" height="5" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path class="g" d="M0 0V5" stroke-width="2.4"/></pattern></defs>'
    )


def _mark(mark: Mark, top: int, scale: float) -> str:
    """One mark; a thin gap at its right keeps neighbours apart."""
    x, width = LEFT + mark.start * scale, max(1.5, mark.length * scale - 1)
    hue, middle = f"h{hue_index(mark.request)}", top + LANE / 2
    match mark.kind:
        case "waste":
            shape = f'<rect class="w" x="{x:.1f}" y="{top}" width="{width:.1f}" height="{LANE}"/>'
        case "queue" | "away":
            dash = "1.5 5" if mark.kind == "queue" else "6 4"
            line = f"M{x + 2:.1f} {middle}h{max(1.5, width - 4):.1f}"
            shape = f'<path class="q {hue}" stroke-dasharray="{dash}" d="{line}"/>'
        case "preempted":
            centre = x + mark.length * scale / 2
            return (
                f'<text class="red" x="{centre:.1f}" y="{middle + 4}" text-anchor="middle">✕</text>'
            )
        case "token":
            centre = x + mark.length * scale / 2
            shape = f'<path class="{hue}" d="M{centre:.1f} {middle - 5}l5 5l-5 5l-5-5z"/>'
            if mark.label:
                text = f'<text class="l" x="{centre + 9:.1f}" y="{middle + 4}">{escape(mark.label)}</text>'
                return shape + text
            return shape
        case _:
            opacity = OPACITY[mark.kind]
            size = f'x="{x:.1f}" y="{top}" width="{width:.1f}" height="{LANE}"'
            shape = f'<rect class="{hue}" {size} opacity="{opacity}"/>'
    if not mark.label:
        return shape
    ink = "on" if mark.kind == "decode" else "l"
    where = f'x="{x + width / 2:.1f}" y="{middle + 4}" text-anchor="middle"'
    return f'{shape}<text class="{ink}" {where}>{escape(mark.label)}</text>'


def _axis(end: int, scale: float, y: int, name: str) -> list[str]:
    """A line, about eight round ticks, and what is counted."""
    step = next(s for s in (1, 2, 5, 10, 16, 20, 50, 100, 200, 300, 500, 1000) if end / s <= 10)
    parts = [f'<path class="g" d="M{LEFT} {y}h{WIDTH}" fill="none"/>']
    for value in range(0, end + 1, step):
        x = LEFT + value * scale
        parts.append(
            f'<text class="n" x="{x:.1f}" y="{y + 15}" text-anchor="middle">{value}</text>'
        )
    parts.append(
        f'<text class="n" x="{LEFT + WIDTH}" y="{y + 30}" text-anchor="end">{escape(name)}</text>'
    )
    return parts


def _legend(kinds: set[Kind], y: int, language: Language) -> list[str]:
    """The kinds that occur, each with its word."""
    parts, x = [], LEFT
    for kind in KINDS:
        if kind in kinds:
            word = say(f"kind_{kind}", language)
            parts.append(
                _legend_sample(kind, x, y)
                + f'<text class="n" x="{x + 24}" y="{y + 4}">{word}</text>'
            )
            x += 40 + sum(13 if char > "\u2e7f" else 7 for char in word)
    return parts


def _legend_sample(kind: Kind, x: int, y: int) -> str:
    match kind:
        case "waste":
            return f'<rect class="w" x="{x}" y="{y - 6}" width="18" height="12"/>'
        case "queue" | "away":
            dash = "1.5 5" if kind == "queue" else "6 4"
            return f'<path class="q g" stroke-dasharray="{dash}" d="M{x} {y}h18"/>'
        case "preempted":
            return f'<text class="red" x="{x + 5}" y="{y + 4}">✕</text>'
        case "token":
            return f'<path class="g" d="M{x + 9} {y - 5}l5 5l-5 5l-5-5z"/>'
        case _:
            return f'<rect class="g" x="{x}" y="{y - 6}" width="18" height="12" opacity="{OPACITY[kind]}"/>'


def write_drawings(lesson: Lesson, picture: Picture) -> None:
    """Put both drawings beside the lesson."""
    for language in LANGUAGES:
        name = "picture.svg" if language == "en" else f"picture.{language}.svg"
        (lesson.folder / name).write_text(draw_svg(lesson, picture, language), encoding="utf-8")


if __name__ == "__main__":
    chosen, opened = find_lesson(sys.argv[1]), tracing.open_run(Path(sys.argv[2]))
    drawn = draw_from(chosen, opened)
    save_picture(chosen, drawn)
    write_drawings(chosen, drawn)
    opened.close()
