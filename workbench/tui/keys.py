"""Every key, once: bindings, footer, help page and command palette are made of this table.

Invariant: a key means the same on every screen, or it is listed for one screen only.
"""

from dataclasses import dataclass

from textual.binding import Binding

from workbench.tui.glyphs import Glyphs


@dataclass(frozen=True, slots=True)
class Key:
    """A key, what it does, and where it is mentioned."""

    keys: str
    """As Textual names them, parted by commas."""
    action: str
    word: str
    """Key of its verb in the catalogue: tui.key.<word>."""
    shown: str = ""
    """As the footer and the help page write it; default: the key itself."""
    group: str = "everywhere"
    """Part of the help page: everywhere, time, dev, or a screen's name."""
    needs_dev: bool = False


KEYS = (
    Key("1,2,3,4,5,6", "", "screen", "1-6"),
    Key("enter", "screen.go_down", "open", "⏎"),
    Key("escape", "screen.go_back", "back", "esc"),
    Key("slash", "app.find", "find", "/"),
    Key("ctrl+p", "app.command_palette", "palette", "^p"),
    Key("c", "app.copy_id", "copy", "c"),
    Key("S", "app.save_picture", "picture", "S"),
    Key("T", "app.next_theme", "theme", "T"),
    Key("l", "app.next_language", "language", "l"),
    Key("i", "app.send_prompt", "send", "i"),
    Key("question_mark", "screen.show('help')", "help", "?"),
    Key("q", "app.quit", "quit", "q"),
    Key("space", "app.toggle_play", "freeze", "space", "time"),
    Key("left", "app.move(-1)", "step", "← →", "time"),
    Key("right", "app.move(1)", "step", "", "time"),
    Key("shift+left", "app.move(-10)", "ten_steps", "⇧← ⇧→", "time"),
    Key("shift+right", "app.move(10)", "ten_steps", "", "time"),
    Key("left_square_bracket", "app.next_moment(-1)", "moment", "[ ]", "time"),
    Key("right_square_bracket", "app.next_moment(1)", "moment", "", "time"),
    Key("k", "app.choose_kind", "kind", "k", "time"),
    Key("minus", "app.speed(-1)", "speed", "- +", "time"),
    Key("plus,equals_sign", "app.speed(1)", "speed", "", "time"),
    Key("g", "app.go_first", "first_last", "g G", "time"),
    Key("G", "app.go_last", "first_last", "", "time"),
    Key("colon", "app.go_to", "go_to", ":", "time"),
    Key("P", "app.dev_pause", "dev_pause", "P", "dev", needs_dev=True),
    Key("O", "app.dev_step", "dev_step", "O", "dev", needs_dev=True),
    Key("B", "app.dev_breakpoint", "dev_breakpoint", "B", "dev", needs_dev=True),
    Key("K", "app.dev_knobs", "dev_knobs", "K", "dev", needs_dev=True),
    Key("X", "app.dev_abort", "dev_abort", "X", "dev", needs_dev=True),
    Key("r", "screen.open_its_request", "request", "r"),
    Key("t", "screen.open_its_step", "its_step", "t"),
    Key("b", "screen.open_its_block", "block", "b"),
    Key("m", "toggle_tokens", "tokens", "m", "batch"),
    Key("h", "toggle_logical", "logical", "h", "blocks"),
    Key("a", "toggle_ages", "ages", "a", "blocks"),
    Key("e", "toggle_order", "order", "e", "blocks"),
    Key("z", "zoom", "zoom", "z", "blocks"),
    Key("s", "next_sort", "sort", "s", "requests"),
    Key("f", "next_filter", "filter", "f", "requests"),
    Key("n", "neighbour(1)", "neighbour", "n N", "request"),
    Key("N", "neighbour(-1)", "neighbour", "", "request"),
    Key("a", "show_answer", "answer", "a", "request"),
    Key("f", "app.choose_kinds", "kinds", "f", "decisions"),
)
GROUPS = ("everywhere", "time", "dev")
_BY_WORD = {key.word: key for key in reversed(KEYS)}

FOOTERS = {
    "overview": ("freeze", "step", "moment", "open", "find", "palette", "help"),
    "batch": ("step", "moment", "open", "block", "tokens", "palette", "help"),
    "blocks": ("open", "logical", "ages", "order", "zoom", "palette", "help"),
    "requests": ("open", "sort", "filter", "copy", "freeze", "palette", "help"),
    "request": ("back", "open", "block", "neighbour", "answer", "copy", "palette", "help"),
    "decisions": ("open", "request", "block", "kinds", "find", "moment", "help"),
    "help": ("back", "palette", "quit"),
}
"""What the footer mentions, the screen's own first."""


def bindings_of(group: str) -> list[Binding | tuple[str, str] | tuple[str, str, str]]:
    """Textual's bindings of a screen, or of a group of the whole application."""
    return [
        Binding(key.keys, key.action, key.word, show=False)
        for key in KEYS
        if key.group == group and key.action
    ]


def shown(key: Key, glyphs: Glyphs) -> str:
    """How a key is written."""
    text = key.shown or key.keys
    if glyphs.is_ascii:
        for mark, plain in (("⏎", "enter"), ("⇧", "shift-"), ("←", "left"), ("→", "right")):
            text = text.replace(mark, plain)
    return text


def key_of(word: str) -> Key:
    """A key by the word for what it does."""
    return _BY_WORD[word]
