"""The help page: keys, then the legend; nothing else. 80 x 24 shows at once what holds on every screen."""

from workbench.tui.brush import Area, Brush
from workbench.tui.keys import GROUPS, KEYS, Key, shown
from workbench.tui.model import Model
from workbench.tui.view import View

PER_SCREEN = ("batch", "blocks", "requests", "request", "decisions")
TOGETHER = (
    ("screen", "help"),
    ("request", "its_step", "block"),
    ("palette", "quit"),
    ("copy", "picture"),
    ("theme", "language"),
)
"""Keys that share a line, so that a small terminal has room for the legend."""


class Help(View):
    """Keys and legend."""

    NAME = "help"
    first = 0
    num_rows = 0
    """Of the whole page, as it was drawn last."""

    def moved(self, rows: int) -> None:
        """Scroll, where the page is longer than the screen."""
        self.first = max(0, min(self.first + rows, self.num_rows - self.size.height))

    def paint(self, brush: Brush, model: Model) -> None:
        """Two columns."""
        self._paint_page(brush)

    def _paint_nothing(self, brush: Brush) -> None:
        """Keys can be read without a run."""
        self._paint_page(brush)

    def _paint_page(self, brush: Brush) -> None:
        width = self.size.width
        half = width // 2
        left, right = Area(1, 0, half - 2, 0), Area(half, 0, width - half - 1, 0)
        y = self._paint_keys(brush, left, "everywhere", -self.first)
        end = self._paint_legend(brush, left, y + 1)
        y = self._paint_keys(brush, right, "time", -self.first)
        y = self._paint_keys(brush, right, "dev", y + 1)
        for group in PER_SCREEN:
            y = self._paint_keys(brush, right, group, y + 1)
        self.num_rows = max(end, y) + self.first
        num_below = self.num_rows - self.first - self.size.height
        if num_below > 0:
            text = f" {brush.glyphs.up_down} {brush.words('tui.help.more', n=num_below)}"
            brush.canvas.fill(half, self.size.height - 1, width - half, brush.style())
            brush.canvas.put_right(width - 1, self.size.height - 1, text, brush.style("mute"))

    def _paint_keys(self, brush: Brush, area: Area, group: str, y: int) -> int:
        key = f"tui.help.{group}" if group in GROUPS else f"tui.tab.{group}"
        brush.say(area.x, y, brush.words(key), "hi", bold=True)
        for line in _lines(group):
            y += 1
            keys = " ".join(shown(entry, brush.glyphs) for entry in line)
            brush.say(area.x, y, keys, "ink", width=8)
            text = " · ".join(brush.words(f"tui.help.key_{entry.word}") for entry in line)
            if line[0].word == "request":
                text = brush.words("tui.help.mark")  # their names are too long side by side
            brush.say(area.x + 8, y, text, "mute", width=area.width - 8)
        return y + 1

    def _paint_legend(self, brush: Brush, area: Area, y: int) -> int:
        glyphs, words = brush.glyphs, brush.words
        brush.say(area.x, y, words("tui.help.reading"), "hi", bold=True)
        lines = [
            (words("tui.help.colour"), "ink", words("tui.help.colour_means")),
            (glyphs.queue * 3, "ink", words("tui.help.queue_means")),
            (glyphs.full * 3, "series2", words("tui.help.prefill_means")),
            (glyphs.decode * 3, "series", words("tui.help.decode_means")),
            (glyphs.preempt, "alarm", words("tui.help.red_means")),
            (glyphs.hatch * 3, "ink", words("tui.help.waste_means")),
            (glyphs.first, "hi", words("tui.help.first_means")),
            ("–", "faint", words("tui.help.nothing_means")),
        ]
        for i, (mark, fg, text) in enumerate(lines):
            brush.say(area.x, y + 1 + i, mark, fg)
            brush.say(area.x + 8, y + 1 + i, text, "mute", width=area.width - 8)
        return y + 1 + len(lines)


def _lines(group: str) -> list[list[Key]]:
    """Keys of a group by line of the page."""
    lines: dict[str, list[Key]] = {}
    for key in KEYS:
        if key.group == group and key.shown:
            name = next((words[0] for words in TOGETHER if key.word in words), key.word)
            lines.setdefault(name, []).append(key)
    return list(lines.values())
