"""A lesson's Markdown in a terminal: paragraphs, **bold**, *stress*, `code` and indented formulas.

Chinese has no spaces to break lines at, so a line may end after any wide character, but not before closing
punctuation; Latin words stay whole. Width is counted in cells, of which a wide character takes two.

Source: the idea of Unicode UAX #14 (line breaking), in the part that two languages need.
"""

import re

from rich.cells import cell_len
from rich.text import Text

STYLES = {"**": "bold", "*": "italic", "`": "bold"}
INLINE = re.compile(r"(\*\*|\*|`)(.+?)\1")
UNIT = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]| +|[^ \u2e80-\u9fff\uff00-\uffef]+")
"""What is never broken inside: one wide character, spaces, one Latin word."""
NO_START = frozenset("，。、；：？！）》」』%,.;:?!)")
SEAM = re.compile(
    r"(?<=[\u2e80-\u9fff\uff00-\uffef])\n(?=[\u2e80-\u9fff\uff00-\uffef])"
    r"|(?<=[，。；：？！）])\n"
)
"""A line's end in the source that is no space in Chinese."""


def paragraphs(markdown: str, width: int) -> list[Text]:
    """The text as lines of at most `width` cells, an empty one between paragraphs."""
    lines: list[Text] = []
    for paragraph in re.split(r"\n\s*\n", markdown.strip("\n")):
        if lines:
            lines.append(Text())
        if paragraph.startswith("    "):
            lines += [Text(line) for line in paragraph.split("\n")]
        else:
            lines += wrap(inline(SEAM.sub("", paragraph).replace("\n", " ")), width)
    return lines


def inline(paragraph: str) -> Text:
    """Marks become styles."""
    text, at = Text(), 0
    for found in INLINE.finditer(paragraph):
        text.append(paragraph[at : found.start()])
        text.append(found[2], style=STYLES[found[1]])
        at = found.end()
    return text.append(paragraph[at:])


def wrap(text: Text, width: int) -> list[Text]:
    """Lines of at most `width` cells; only a single word longer than that is longer."""
    breaks, used, end = list[int](), 0, 0
    for unit in _units(text.plain):
        size = cell_len(unit)
        if used and used + cell_len(unit.rstrip()) > width and unit.strip():
            breaks.append(end)
            used = 0
        used += size
        end += len(unit)
    lines = text.divide(breaks) if breaks else [text]
    for line in lines:
        line.rstrip()
    return list(lines)


def _units(plain: str) -> list[str]:
    """What must stay together: words with the closing punctuation behind them."""
    units: list[str] = []
    for unit in UNIT.findall(plain):
        if units and unit[0] in NO_START and not units[-1].isspace():
            units[-1] += unit
        else:
            units.append(unit)
    return units
