"""What everything is drawn on: header, one of seven screens, footer; and the way from place to place.

Invariant: exactly one screen is shown and has the focus, whatever dialog lies over it.
"""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.screen import Screen

from workbench.tui.batch import Batch
from workbench.tui.blocks import Blocks
from workbench.tui.decisions import Decisions
from workbench.tui.desk import Desk
from workbench.tui.frame import Footer, Header, OneLine
from workbench.tui.help import Help
from workbench.tui.keys import GROUPS, bindings_of
from workbench.tui.overview import Overview
from workbench.tui.places import SCREENS
from workbench.tui.request import RequestView
from workbench.tui.requests import Requests
from workbench.tui.view import View

MIN_SIZE = Size(80, 24)
VIEWS = (Overview, Batch, Blocks, Requests, RequestView, Decisions, Help)
PAGE = 15


class Desktop(Screen[None]):
    """The screen under all dialogs."""

    DEFAULT_CSS = "Desktop { background: $background; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(binding for group in GROUPS for binding in bindings_of(group)),
        *((str(i + 1), f"show('{screen}')") for i, screen in enumerate(SCREENS[:6])),
        ("up", "up_down(-1)"),
        ("down", "up_down(1)"),
        ("pageup", f"up_down(-{PAGE})"),
        ("pagedown", f"up_down({PAGE})"),
        ("home", "up_down(-100000)"),
        ("end", "up_down(100000)"),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__()
        self.desk = desk
        self._header, self._footer, self._one_line = Header(desk), Footer(desk), OneLine(desk)
        self._views = {view.NAME: view(desk) for view in VIEWS}

    def compose(self) -> ComposeResult:
        """Header, the seven screens of which one is shown, footer."""
        yield self._header
        yield from self._views.values()
        yield self._one_line
        yield self._footer

    def on_mount(self) -> None:
        """Show the first screen."""
        self.show_place()

    def on_resize(self) -> None:
        """Another size: the same place."""
        self.show_place()

    # -- painting --------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The screen that is shown."""
        return self._views[self.desk.places.here.screen]

    def repaint(self) -> None:
        """Draw what is shown."""
        if self._one_line.display:
            self._one_line.repaint()
            return
        self._header.repaint()
        self._footer.repaint()
        self.view.repaint()

    def show_place(self) -> None:
        """Bring the screen of the place to the front."""
        is_small = self.size.width < MIN_SIZE.width or self.size.height < MIN_SIZE.height
        here = self.desk.places.here.screen
        for view in self._views.values():
            view.set_class(here == view.NAME and not is_small, "shown")
        self._one_line.display = is_small
        self._header.display = self._footer.display = not is_small
        if not is_small:
            self.view.focus()
        self.call_after_refresh(self.repaint)

    # -- places ----------------------------------------------------------------------------------

    def action_show(self, screen: str) -> None:
        """A screen by its number."""
        self.desk.places.jump(screen)
        self.show_place()

    def action_go_down(self) -> None:
        """Into what is selected."""
        target = self.view.opens()
        if target is None:
            return
        kind, number = target
        match kind:
            case "request":
                self.action_open_request(number)
            case "block":
                self.action_open_block(number)
            case _:
                self._open_step(number)

    def action_go_back(self) -> None:
        """The way one came."""
        if self.desk.places.go_back():
            self.show_place()

    def action_open_request(self, request_id: int) -> None:
        """A request, from wherever it is named."""
        self.desk.places.go_down("request", request_id=request_id)
        self.show_place()

    def action_open_block(self, block_id: int) -> None:
        """A block."""
        self.desk.places.go_down("blocks", block_id=block_id)
        self.show_place()

    def action_open_step(self) -> None:
        """The step at the cursor."""
        model = self.desk.session.model
        if model is not None:
            self._open_step(model.step)

    def _open_step(self, step: int) -> None:
        session = self.desk.session
        if session.model is not None and step != session.model.step:
            session.seek(step)
        self.desk.places.go_down("batch")
        self.show_place()

    def action_open_its_request(self) -> None:
        """r: the request of the selected mark."""
        request_id = self.request_here()
        if request_id is not None:
            self.action_open_request(request_id)

    def action_open_its_step(self) -> None:
        """t: the step of the selected mark."""
        target = self.view.opens()
        if target is not None and target[0] == "step":
            self._open_step(target[1])
        else:
            self.action_open_step()

    def action_open_its_block(self) -> None:
        """b: the block of the selected mark, or the request's last one."""
        block_at_cursor = getattr(self.view, "block_at_cursor", None)
        block_id = block_at_cursor() if block_at_cursor is not None else None
        request_id, model = self.request_here(), self.desk.session.model
        if block_id is None and request_id is not None and model is not None:
            table = model.state.pool.table(request_id)
            block_id = table[-1].block_id if table else None
        self.action_open_block(block_id or self.desk.places.here.block_id or 1)

    def request_here(self) -> int | None:
        """The request that the selected mark is about."""
        at_cursor = getattr(self.view, "request_at_cursor", None)
        if at_cursor is not None:
            found: int | None = at_cursor()
            return found
        target = self.view.opens()
        if target is not None and target[0] == "request":
            return target[1]
        return self.desk.places.here.request_id

    def action_up_down(self, rows: int) -> None:
        """Move the selection."""
        self.view.moved(rows)
        self.repaint()
