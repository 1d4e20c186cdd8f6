"""A screenshot's SVG, put right where Chinese is in it.

The exporter counts characters when it says how long a text is, but wide ones take two cells: without this
they are pressed together. It also names fonts on the internet, which a local picture need not fetch.
"""

import html
import re

from rich.cells import cell_len

_TEXT = re.compile(r'textLength="([\d.]+)"([^>]*)>(.*?)</text>')
_FONT = re.compile(r"@font-face\s*\{[^}]*\}\s*")


def put_right(svg: str) -> str:
    """The same picture with true text lengths and no foreign fonts."""
    return _TEXT.sub(_with_length, _FONT.sub("", svg))


def _with_length(found: re.Match[str]) -> str:
    length, rest, content = found.groups()
    text = html.unescape(content)
    if text.isascii() or not text:
        return found[0]
    width = float(length) / len(text) * cell_len(text)
    return f'textLength="{width:.6g}"{rest}>{content}</text>'
