"""Colours of the terminal screens: chrome is grey, colour is one request, red is preemption or error.

The hue of a request is a function of its id (`workbench.look.palette`). Light says the phase: how much of
the hue is mixed into the ground.

    decode 100 %   lanes 90 %   prefill 48 %   hatch 35 %   cached but free, ghost chips 24 %

Invariant: nothing is told by hue alone; in `mono` (and NO_COLOR) a chip is its name in brackets, and every
mark that colour tells elsewhere has a letter or a glyph of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rich.color import Color
from rich.style import Style
from textual.theme import Theme as TextualTheme

from workbench.look.palette import hue_index, ink_on, mix, palette

FULL, LANE, PREFILL, HATCH, GHOST = 1.0, 0.90, 0.48, 0.35, 0.24
NAMES = ("dark", "light", "contrast", "safe", "mono")
"""Themes in the order in which `T` walks through them; safe: hues for the colour-blind."""


@dataclass(frozen=True, eq=False)
class Theme:
    """Styles by meaning; asking for the same one twice gives the same object."""

    name: str
    tokens: Mapping[str, str]
    hues: tuple[str, ...]
    is_dark: bool = True
    is_mono: bool = False
    _styles: dict[tuple[str, str, bool], Style] = field(default_factory=dict)
    _mixed: dict[tuple[str, float, str], str] = field(default_factory=dict)

    def style(self, fg: str = "ink", bg: str = "ground", *, bold: bool = False) -> Style:
        """Text in a colour on a colour; tokens of the palette, or #RRGGBB."""
        key = (fg, bg, bold)
        found = self._styles.get(key)
        if found is None:
            found = self._styles[key] = self._make(fg, bg, bold)
        return found

    def hue(self, request_id: int, share: float = FULL, ground: str = "ground") -> str:
        """A request's colour as #RRGGBB, so much of it mixed into the ground."""
        if self.is_mono:
            return self.tokens["ink"]
        hue = self.hues[hue_index(request_id, len(self.hues))]
        key = (hue, share, ground)
        found = self._mixed.get(key)
        if found is None:
            found = self._mixed[key] = mix(hue, self.tokens[ground], share)
        return found

    def chip(self, request_id: int, *, ghost: bool = False) -> Style:
        """A request's name on its own colour; ghost: it waits, has ended, or has lost what is shown."""
        if self.is_mono:
            return self.style("mute" if ghost else "hi", bold=not ghost)
        if ghost:
            return self.style(self.hue(request_id), self.hue(request_id, GHOST))
        hue = self.hue(request_id)
        return self.style(ink_on(hue), hue, bold=True)

    @cached_property
    def textual(self) -> TextualTheme:
        """For what Textual draws itself: dialogs and the command palette."""
        t = self.tokens
        return TextualTheme(
            name=f"cutaway-{self.name}",
            primary=t["series"],
            secondary=t["series2"],
            accent=t["hi"],
            warning=t["hi"],
            error=t["alarm"],
            success=t["series"],
            foreground=t["ink"],
            background=t["ground"],
            surface=t["panel"],
            panel=t["raised"],
            dark=self.is_dark,
        )

    def _make(self, fg: str, bg: str, bold: bool) -> Style:
        front, back = (self.tokens.get(name, name) for name in (fg, bg))
        if not self.is_mono:
            return Style(color=Color.parse(front), bgcolor=Color.parse(back), bold=bold)
        # No colours at all: weight, dimness and reversal carry what is left to say.
        strong = bold or fg in ("hi", "alarm")
        weak = fg in ("faint", "rule", "mute")
        return Style(bold=strong, dim=weak and not strong, reverse=bg in ("raised", "chip"))


def make_theme(name: str) -> Theme:
    """A theme by its name."""
    look: dict[str, Any] = palette()
    hues, tokens = look["hues"], look["tui"]
    match name:
        case "light":
            return Theme(name, tokens["light"], tuple(hues["light"]), is_dark=False)
        case "contrast":
            return Theme(name, tokens["contrast"], tuple(hues["dark"]))
        case "safe":
            return Theme(name, tokens["dark"], tuple(hues["safe_dark"]))
        case "mono":
            return Theme(name, tokens["contrast"], tuple(hues["dark"]), is_mono=True)
        case _:
            return Theme("dark", tokens["dark"], tuple(hues["dark"]))
