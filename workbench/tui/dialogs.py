"""Small windows over a screen: a line of text, or a choice. Enter takes, Escape leaves things as they are."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

_CSS = """
{name} {{ align: center middle; background: $background 60%; }}
{name} Vertical {{ width: 72; max-width: 95%; height: auto; max-height: 80%; padding: 0 1;
                  background: $surface; border: round $panel; }}
{name} Static {{ color: $foreground; }}
{name} VerticalScroll {{ height: auto; max-height: 28; margin: 1 0; }}
{name} .note {{ color: $foreground 60%; }}
{name} Input {{ border: none; padding: 0; height: 1; margin: 1 0; background: $panel; }}
{name} OptionList {{ border: none; height: auto; max-height: 16; padding: 0; margin: 1 0;
                     background: $surface; }}
{name}:nocolor OptionList > .option-list--option-highlighted {{ text-style: reverse; }}
"""


class Ask(ModalScreen[str | None]):
    """One line of text."""

    CSS = _CSS.format(name="Ask")
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "cancel")]

    def __init__(self, title: str, note: str = "", value: str = "") -> None:
        super().__init__()
        self._title, self._note, self._value = title, note, value

    def compose(self) -> ComposeResult:
        """Title, input, note."""
        with Vertical():
            yield Static(self._title, markup=False)
            yield Input(self._value)
            if self._note:
                yield Static(self._note, classes="note", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self.dismiss(event.value.strip() or None)

    def action_cancel(self) -> None:
        """Escape."""
        self.dismiss(None)


class Choose(ModalScreen[str | None]):
    """One of a few."""

    CSS = _CSS.format(name="Choose")
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "cancel")]

    def __init__(
        self, title: str, options: Sequence[tuple[str, str]], chosen: str | None = None
    ) -> None:
        """`options`: (answer, text)."""
        super().__init__()
        self._title, self._options, self._chosen = title, options, chosen

    def compose(self) -> ComposeResult:
        """Title and list."""
        with Vertical():
            yield Static(self._title, markup=False)
            yield OptionList(*(Option(text, id=name) for name, text in self._options), markup=False)

    def on_mount(self) -> None:
        """Begin where one was."""
        choices = self.query_one(OptionList)
        names = [name for name, _ in self._options]
        choices.highlighted = names.index(self._chosen) if self._chosen in names else 0
        choices.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter."""
        event.stop()
        self.dismiss(event.option.id)

    def action_cancel(self) -> None:
        """Escape."""
        self.dismiss(None)


class Show(ModalScreen[None]):
    """Text to read."""

    CSS = _CSS.format(name="Show") + "Show Vertical { width: 116; }"
    BINDINGS: ClassVar[list[BindingType]] = [("escape,enter,q", "cancel")]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title, self._text = title, text

    def compose(self) -> ComposeResult:
        """Title and text, which scrolls."""
        with Vertical():
            yield Static(self._title, classes="note", markup=False)
            with VerticalScroll():
                yield Static(self._text, markup=False)

    def action_cancel(self) -> None:
        """Any of the keys."""
        self.dismiss(None)
