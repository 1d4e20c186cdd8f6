"""Marks, each one cell wide, and what stands for them in a terminal that knows ASCII only.

Some of the marks are of ambiguous width in East Asian locales; `--ascii` avoids them all.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of marks."""

    is_ascii: bool
    queue: str
    prefill: str
    decode: str
    away: str
    first: str
    preempt: str
    spark: str
    """From lowest to highest; the first stands for "a little"."""
    full: str
    eighths: str
    """Cells that are filled from the left, 1/8 to 7/8."""
    hatch: str
    upper: str
    """Two squares a cell: this one's colour above, the ground's below."""
    arrive: str
    admit: str
    resume: str
    skip: str
    evict: str
    finish: str
    fault: str
    lookup: str
    live: str
    paused: str
    replay: str
    lost: str
    held: str
    running: str
    line: str
    heavy: str
    corners: str
    """Rounded: upper left, upper right, lower left, lower right; then a vertical line."""
    here: str
    tick: str
    new: str
    left: str
    right: str
    """A selected block's two sides."""
    arrow: str
    dash: str
    more: str
    enter: str
    arrows: str
    up_down: str
    times: str
    pointer: str
    """Left edge of a selected line."""

    def kind(self, name: str) -> str:
        """The mark of a kind of event (`workbench.tui.log`)."""
        marks = {
            "arrive": self.arrive,
            "admit": self.admit,
            "resume": self.resume,
            "chunk": self.prefill,
            "skip": self.skip,
            "preempt": self.preempt,
            "evict": self.evict,
            "finish": self.finish,
            "first": self.first,
            "lookup": self.lookup,
            "miss": self.skip,
            "gap": self.away,
            "fault": self.fault,
            "control": self.paused,
        }
        return marks[name]


UNICODE = Glyphs(
    is_ascii=False,
    queue="·",
    prefill="▒",
    decode="▅",
    away="┄",
    first="◆",
    preempt="✕",
    spark="▁▂▃▄▅▆▇",
    full="█",
    eighths="▏▎▍▌▋▊▉",
    hatch="╱",
    upper="▀",
    arrive="→",
    admit="+",
    resume="↻",
    skip="…",
    evict="−",
    finish="■",
    fault="!",
    lookup="◇",
    live="●",
    paused="‖",
    replay="▸",
    lost="✕",
    held="■",
    running="▶",
    line="─",
    heavy="━",
    corners="╭╮╰╯│",
    here="▲",
    tick="┴",
    new="◂",
    left="▐",
    right="▌",
    arrow="→",
    dash="–",
    more="…",
    enter="⏎",
    arrows="←→",
    up_down="↑↓",
    times="×",
    pointer="▌",
)

ASCII = Glyphs(
    is_ascii=True,
    queue=".",
    prefill=":",
    decode="#",
    away="-",
    first="*",
    preempt="x",
    spark="_.-~=+#",
    full="#",
    eighths="   ####",
    hatch="/",
    upper="#",
    arrive=">",
    admit="+",
    resume="r",
    skip=".",
    evict="-",
    finish="#",
    fault="!",
    lookup="o",
    live="*",
    paused="|",
    replay=">",
    lost="x",
    held="#",
    running=">",
    line="-",
    heavy="=",
    corners="++++|",
    here="^",
    tick="+",
    new="<",
    left="[",
    right="]",
    arrow=">",
    dash="-",
    more="~",
    enter="enter",
    arrows="<- ->",
    up_down="up/dn",
    times="x",
    pointer=">",
)
