"""The command palette: every key's action by name, places, looks, and where a number comes from."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from workbench.look.words import LANGUAGES
from workbench.tui.keys import KEYS
from workbench.tui.theme import NAMES

if TYPE_CHECKING:
    from workbench.tui.app import TopApp

METRICS = {
    "rates": "rates_between",
    "latency": "latency_at",
    "hit": "hit_rate",
    "budget": "budget_use",
    "blocks": "kv_at",
    "counts": "moment_counts",
}
"""Number on the screen -> query of tracing/sql that defines it."""


class TopCommands(Provider):
    """What can be done, by name."""

    @property
    def _top(self) -> "TopApp":
        return cast("TopApp", self.app)

    async def discover(self) -> Hits:
        """All of it."""
        for text, action in self._actions():
            yield DiscoveryHit(text, action)

    async def search(self, query: str) -> Hits:
        """What fits the letters typed; `r81`, `b12` and `step 300` are places."""
        matcher = self.matcher(query)
        for text, action in self._actions():
            score = matcher.match(text)
            if score > 0:
                yield Hit(score, matcher.highlight(text), action)

    def _actions(self) -> list[tuple[str, Callable[[], Any]]]:
        top, words = self._top, self._top.desk.words
        found: list[tuple[str, Callable[[], Any]]] = [
            (words(f"tui.help.key_{key.word}"), partial(top.run_action, key.action, top.desktop))
            for key in KEYS
            if key.action and key.shown and key.action != "app.command_palette"
        ]
        found += [
            (
                words("tui.palette.theme", name=words(f"tui.theme.{name}")),
                partial(top.set_look, theme=name),
            )
            for name in NAMES
        ]
        found += [
            (
                words("tui.palette.language", name=words(f"tui.language.{lang}")),
                partial(top.set_look, lang=lang),
            )
            for lang in LANGUAGES
        ]
        found += [
            (
                words("tui.palette.explain", name=words(f"tui.explain.{name}")),
                partial(top.explain, query),
            )
            for name, query in METRICS.items()
        ]
        found += [
            (words("tui.palette.copy_sql"), top.copy_as_sql),
            (words("tui.palette.open_web"), top.open_in_web),
        ]
        return found
