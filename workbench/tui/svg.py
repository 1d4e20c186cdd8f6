"""A screenshot's SVG, put right: block characters as the rectangles they mean, and true lengths for Chinese.

In a terminal `▄▄██` is a shape without seams. A picture's font draws four letters, with hairlines between
them and gaps between rows, so what is a block becomes a rectangle, neighbours one:

    <text ...>r7 ██▄▄</text>   ─►   <rect class="its colour" .../> <rect .../> <text ...>r7     </text>

The exporter counts characters when it says how long a text is, but wide ones take two cells: without
correction they are pressed together. It also names fonts on the internet, which a picture need not fetch.

Source: rich/console.py `export_svg`, 15.0: a row is 24.4 units high, its text stands 18.5 below its top.
"""

import html
import re
from itertools import groupby

from rich.cells import cell_len

ROW_HEIGHT, BASELINE = 24.4, 18.5

_TEXT = re.compile(
    r'<text class="([^"]*)" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"([^>]*)>(.*?)</text>'
)
_FONT = re.compile(r"@font-face\s*\{[^}]*\}\s*")
_SPACE = "\xa0"
_BLOCKS: dict[str, tuple[float, float, float, float]] = {
    "▀": (0, 0, 1, 0.5),
    "▐": (0.5, 0, 1, 1),
    **{char: (0, 1 - i / 8, 1, 1) for i, char in enumerate("▁▂▃▄▅▆▇█", 1)},
    **{char: (0, 0, i / 8, 1) for i, char in enumerate("▏▎▍▌▋▊▉", 1)},
}
"""Character -> left, top, right, bottom, as shares of its cell."""
_MARK = re.compile(f"[{''.join(_BLOCKS)}]")


def put_right(svg: str) -> str:
    """The same picture with shapes, true text lengths and no foreign fonts."""
    return _TEXT.sub(_redrawn, _FONT.sub("", svg))


def _redrawn(found: re.Match[str]) -> str:
    style, x, y, length, rest, content = found.groups()
    text = html.unescape(content)
    if not text:
        return found[0]
    cell = float(length) / len(text)
    drawn = _rectangles(text, style, float(x), float(y) - BASELINE, cell)
    left = _MARK.sub(_SPACE, text)
    if drawn and not left.strip(_SPACE + " "):
        return drawn
    escaped = html.escape(left, quote=False).replace(_SPACE, "&#160;")
    place = f'<text class="{style}" x="{x}" y="{y}" textLength="{cell * cell_len(text):.6g}"'
    return f"{drawn}{place}{rest}>{escaped}</text>"


def _rectangles(text: str, style: str, x: float, top: float, cell: float) -> str:
    """One for each run of the same block."""
    drawn = ""
    for char, run in groupby(text):
        num_cells = len(list(run)) * cell_len(char)
        width = num_cells * cell
        if char in _BLOCKS:
            left, upper, right, lower = _BLOCKS[char]
            shapes = [(x, width)]
            if right - left < 1:  # each cell has its own, as they do not touch
                shapes = [(x + (i + left) * cell, cell * (right - left)) for i in range(num_cells)]
            for start, wide in shapes:
                drawn += (
                    f'<rect class="{style}" x="{start:.6g}" y="{top + upper * ROW_HEIGHT:.6g}"'
                    f' width="{wide:.6g}" height="{(lower - upper) * ROW_HEIGHT:.6g}"'
                    ' shape-rendering="crispEdges"/>'
                )
        x += width
    return drawn
