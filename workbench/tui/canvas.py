"""A grid of cells to draw on, and what of it has changed since the last time.

Screens write text and marks anywhere, later ones over earlier ones, measured in cells, not in characters:
a Chinese character takes two. A row becomes a Strip of as few segments as possible; rows that are the
same as before are not drawn again, and that is what keeps a live screen cheap.

    chars    r 8 1   待 ""  ...      "" stands behind a wide character
    styles   A A A B C  C   ...      interned, so that comparing them is comparing identities

Invariant: a row is exactly as wide as the canvas, and no wide character is ever cut in half.
"""

from collections.abc import Sequence

from rich.cells import cell_len, get_character_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

Cell = tuple[str, Style]
"""A character, one cell wide, and its style."""
Patch = list[tuple[list[str], list[Style]]]
"""Rows of a part of a canvas."""

_IN_ASCII = str.maketrans(
    {"…": "~", "–": "-", "·": ".", "×": "x", "→": ">", "≤": "<", "←": "<", "↑": "^", "↓": "v"}
    | {"µ": "u", "‹": "<", "✕": "x", "◆": "*", "∞": "-"}
)
"""What texts use besides ASCII, apart from Chinese itself."""


class Canvas:
    """Rows of cells, all blank at first."""

    def __init__(self, width: int, height: int, blank: Style, *, ascii_only: bool = False) -> None:
        self.width, self.height = width, height
        self.ascii_only = ascii_only
        self._chars = [[" "] * width for _ in range(height)]
        self._styles = [[blank] * width for _ in range(height)]

    def put(self, x: int, y: int, text: str, style: Style, *, width: int | None = None) -> int:
        """Write from (x, y) on, cut to `width` with an ellipsis; returns the cell behind it.

        What falls outside the canvas is dropped.
        """
        room = self.width - x if width is None else min(width, self.width - x)
        if not 0 <= y < self.height or room <= 0:
            return x
        if not text.isascii():
            return self._put_wide(x, y, fit(text, room), style)
        if len(text) > room:
            text = text[: room - 1] + "…"
        if x < 0:
            text, x = text[-x:], 0
        end = x + len(text)
        self._split(y, x, end)
        self._chars[y][x:end] = text
        self._styles[y][x:end] = [style] * len(text)
        return end

    def put_right(self, x: int, y: int, text: str, style: Style) -> None:
        """Write so that the last cell is the one before x."""
        self.put(x - cell_len(text), y, text, style)

    def cells(self, x: int, y: int, cells: Sequence[Cell]) -> None:
        """Lay narrow cells down as they are."""
        if 0 <= y < self.height and 0 <= x < self.width:
            end = min(self.width, x + len(cells))
            self._split(y, x, end)
            self._chars[y][x:end] = [char for char, _ in cells[: end - x]]
            self._styles[y][x:end] = [style for _, style in cells[: end - x]]

    def fill(self, x: int, y: int, width: int, style: Style, char: str = " ") -> None:
        """A run of the same cell."""
        end = min(self.width, x + width)
        if 0 <= y < self.height and 0 <= x < end:
            self._split(y, x, end)
            self._chars[y][x:end] = [char] * (end - x)
            self._styles[y][x:end] = [style] * (end - x)

    def copy(self, x: int, y: int, width: int, height: int) -> Patch:
        """A part of it, to be pasted into a canvas of the same size later."""
        rows = range(y, min(y + height, self.height))
        return [(self._chars[r][x : x + width], self._styles[r][x : x + width]) for r in rows]

    def paste(self, x: int, y: int, patch: Patch) -> None:
        """Put a part back where it was copied."""
        for i, (chars, styles) in enumerate(patch):
            self._chars[y + i][x : x + len(chars)] = chars
            self._styles[y + i][x : x + len(styles)] = styles

    def strips(
        self, before: "Canvas | None", old: list[Strip]
    ) -> tuple[list[Strip], list[tuple[int, int]]]:
        """One strip a row, and which rows differ from those of the canvas before: (first, how many)."""
        if before is None or (before.width, before.height) != (self.width, self.height):
            return [self._strip(y) for y in range(self.height)], [(0, self.height)]
        strips, changed = list(old), list[tuple[int, int]]()
        for y in range(self.height):
            if self._chars[y] != before._chars[y] or self._styles[y] != before._styles[y]:
                strips[y] = self._strip(y)
                first, num = changed.pop() if changed and sum(changed[-1]) == y else (y, 0)
                changed.append((first, num + 1))
        return strips, changed

    def text(self) -> list[str]:
        """The characters alone, one string a row."""
        return ["".join(chars).rstrip() for chars in self._chars]

    def _put_wide(self, x: int, y: int, text: str, style: Style) -> int:
        chars, styles = self._chars[y], self._styles[y]
        for char in text:
            size = get_character_cell_size(char)
            if x >= 0 and x + size <= self.width and size:
                self._split(y, x, x + size)
                chars[x : x + size] = [char, ""][:size]
                styles[x : x + size] = [style, style][:size]
            x += size
        return x

    def _split(self, y: int, x: int, end: int) -> None:
        """Before cells are overwritten: of a wide character at either edge, blank the half that stays."""
        chars = self._chars[y]
        if chars[x] == "" and x:
            chars[x - 1] = " "
        if end < self.width and chars[end] == "":
            chars[end] = " "

    def _strip(self, y: int) -> Strip:
        """Runs of the same style as segments."""
        chars, styles, segments = self._chars[y], self._styles[y], []
        start, style = 0, styles[0]
        for x, here in enumerate(styles):
            if here is not style:
                segments.append(self._segment(chars[start:x], style))
                start, style = x, here
        segments.append(self._segment(chars[start:], style))
        return Strip(segments, self.width)

    def _segment(self, chars: list[str], style: Style) -> Segment:
        text = "".join(chars)
        return Segment(text.translate(_IN_ASCII) if self.ascii_only else text, style)


def fit(text: str, width: int) -> str:
    """The text cut on a cell boundary, with an ellipsis if anything was lost."""
    if cell_len(text) <= width:
        return text
    kept, used = "", 0
    for char in text:
        size = get_character_cell_size(char)
        if used + size > width - 1:
            break
        kept, used = kept + char, used + size
    return kept + "…" + " " * (width - 1 - used)


def wrap(text: str, width: int) -> list[str]:
    """The text in lines of at most so many cells; between words where there are any."""
    lines, line = [], ""
    for word in text.replace(" ", " \0").split("\0"):
        while cell_len(line + word.rstrip()) > width:
            if line:
                lines.append(line.rstrip())
                line = ""
                continue
            at = next(i for i in range(1, len(word) + 1) if cell_len(word[:i]) > width - 1)
            lines.append(word[:at])
            word = word[at:]
        line += word
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def pad(text: str, width: int) -> str:
    """The text, filled up with spaces to so many cells."""
    return text + " " * (width - cell_len(text))
