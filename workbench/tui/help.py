"""The help page: keys, then the legend; nothing else."""

from workbench.tui.brush import Area, Brush
from workbench.tui.keys import GROUPS, KEYS, Key, shown
from workbench.tui.model import Model
from workbench.tui.view import View

PER_SCREEN = ("batch", "blocks", "requests", "request", "decisions")


class Help(View):
    """Keys and legend."""

    NAME = "help"
    first = 0

    def moved(self, rows: int) -> None:
        """Scroll, where the page is longer than the screen."""
        self.first = max(0, self.first + rows)

    def paint(self, brush: Brush, model: Model) -> None:
        """Two columns at 80 cells; three where there is room."""
        self._paint_page(brush)

    def _paint_nothing(self, brush: Brush) -> None:
        """Keys can be read without a run."""
        self._paint_page(brush)

    def _paint_page(self, brush: Brush) -> None:
        width = self.size.width
        half = width // 2
        left, right = Area(1, 0, half - 2, 0), Area(half, 0, width - half - 1, 0)
        y = self._paint_keys(brush, left, "everywhere", -self.first)
        self._paint_legend(brush, left, y + 1)
        y = self._paint_keys(brush, right, "time", -self.first)
        y = self._paint_keys(brush, right, "dev", y + 1)
        for group in PER_SCREEN:
            y = self._paint_keys(brush, right, group, y + 1)

    def _paint_keys(self, brush: Brush, area: Area, group: str, y: int) -> int:
        key = f"tui.help.{group}" if group in GROUPS else f"tui.tab.{group}"
        brush.say(area.x, y, brush.words(key), "hi", bold=True)
        for entry in _mentioned(group):
            y += 1
            brush.say(area.x, y, shown(entry, brush.glyphs), "ink", width=8)
            text = brush.words(f"tui.help.key_{entry.word}")
            brush.say(area.x + 8, y, text, "mute", width=area.width - 8)
        return y + 1

    def _paint_legend(self, brush: Brush, area: Area, y: int) -> None:
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


def _mentioned(group: str) -> list[Key]:
    """Keys of a group, those that share a line once."""
    return [key for key in KEYS if key.group == group and key.shown]
