"""Screen 4, Requests: who runs, who waits, who left last, and each one's life as a bar.

Rows keep their places: sorted by state, then by arrival, and sorted anew only on a key (`s`), never
because a number grew. Waiting ones beyond a few are folded.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import BindingType

from tracing.record import Level
from workbench.tui import numbers
from workbench.tui.brush import Area, Brush
from workbench.tui.keys import bindings_of
from workbench.tui.life import draw_life, span_of
from workbench.tui.model import Model, why_none
from workbench.tui.view import View

SORTS = ("state", "arrival", "ttft", "itl", "out")
FILTERS = ("all", "running", "waiting", "done", "preempted")
NUM_WAITING = 4
"""So many waiting ones are shown before they are folded."""
NUM_DONE = 12


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the list: a request, or how many are folded here."""

    status: str
    """running, waiting, preempted, done or fold."""
    request: dict[str, Any]
    num_folded: int = 0


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers: where it ends, what it is called, what it says."""

    right: int
    word: str
    value: Callable[[dict[str, Any]], str]
    is_strong: bool = False


class Requests(View):
    """The list of requests."""

    NAME = "requests"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("requests")

    sort = "state"
    filter = "all"

    def opens(self) -> tuple[str, int] | None:
        """Down to the request."""
        request_id = self._selected_id()
        return None if request_id is None else ("request", request_id)

    def moved(self, rows: int) -> None:
        """Another request."""
        ids = [line.request["request_id"] for line in self._lines() if line.status != "fold"]
        if not ids:
            return
        here = self.desk.places.here.request_id
        place = ids.index(here) if here in ids else 0
        self.desk.places.turn_to(request_id=ids[max(0, min(len(ids) - 1, place + rows))])

    def action_next_sort(self) -> None:
        """Sort by something else."""
        self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        self.repaint()

    def action_next_filter(self) -> None:
        """Show others."""
        self.filter = FILTERS[(FILTERS.index(self.filter) + 1) % len(FILTERS)]
        self.repaint()

    def paint(self, brush: Brush, model: Model) -> None:
        """A line of facts, the header, the rows."""
        words, state = brush.words, model.state
        x = brush.say(1, 0, words("tui.requests.sort") + " ", "mute")
        x = brush.say(x, 0, words(f"tui.requests.sort_{self.sort}"), "hi", bold=True) + 3
        x = brush.say(x, 0, words("tui.requests.filter") + " ", "mute")
        x = brush.say(x, 0, words(f"tui.requests.filter_{self.filter}"), "hi", bold=True) + 3
        counts = words(
            "tui.requests.counts",
            running=len(state.running),
            waiting=len(state.waiting),
            done=numbers.count(state.totals["ended"]),
        )
        brush.say(x, 0, counts, "mute")
        lines = self._lines()
        ids = [line.request.get("request_id") for line in lines]
        chip = max(4, brush.chip_width(ids))
        columns = self._columns(1 + chip + 13)
        for column in columns:
            brush.canvas.put_right(column.right, 1, words(column.word), brush.style("mute"))
        brush.say(1, 1, words("tui.requests.id"), "mute")
        brush.say(2 + chip, 1, words("tui.requests.state"), "mute")
        life = Area(columns[-1].right + 2, 1, self.size.width - columns[-1].right - 3, 1)
        span = span_of(model.timeline.upto(model.step, life.width), life.width)
        brush.say(
            life.x, 1, words("tui.requests.life", n=len(span.columns)), "mute", width=life.width
        )
        if not lines and self.filter == "all":
            text = why_none(state.level, Level.REQUESTS, "tui.request.none", words)
            brush.say(1, 2, text, "mute")
        room = self.size.height - 2
        selected = self._selected_place(lines)
        first = max(0, min(selected - room // 2, len(lines) - room))
        for i, line in enumerate(lines[first : first + room]):
            y = 2 + i
            if line.status == "fold":
                text = words("tui.requests.more_waiting", n=line.num_folded)
                brush.say(2 + chip, y, text, "mute")
                continue
            is_selected = first + i == selected
            self._paint_line(brush, line, y, chip, columns, is_selected=is_selected)
            bg = "raised" if is_selected else "ground"
            draw_life(brush, Area(life.x, y, life.width, 1), line.request, span, bg=bg)

    # -- rows ------------------------------------------------------------------------------------

    def _paint_line(
        self,
        brush: Brush,
        line: Line,
        y: int,
        chip: int,
        columns: list[Column],
        *,
        is_selected: bool,
    ) -> None:
        request, bg = line.request, "raised" if is_selected else "ground"
        if is_selected:
            brush.canvas.fill(0, y, self.size.width, brush.style("ink", bg))
            brush.canvas.put(0, y, brush.glyphs.pointer, brush.style("hi", bg))
        request_id = request["request_id"]
        brush.chip(1, y, request_id, ghost=line.status != "running", width=chip)
        marks = {
            "running": brush.glyphs.running,
            "waiting": brush.glyphs.skip,
            "preempted": brush.glyphs.preempt,
            "done": brush.glyphs.finish,
        }
        fg = {"running": "ink", "preempted": "alarm"}.get(line.status, "mute")
        state = f"{marks[line.status]} {brush.words(f'tui.state.{line.status}')}"
        brush.say(2 + chip, y, state, fg, bg=bg, width=12)
        for column in columns:
            strong = column.is_strong and line.status == "running"
            text = column.value(request)
            if column.word == "tui.requests.preempted" and text != "·":
                brush.canvas.put_right(column.right, y, text, brush.style("alarm", bg, bold=True))
            else:
                brush.number(column.right, y, text, strong=strong, bg=bg)
        self.spot(Area(0, y, self.size.width, 1), f"screen.open_request({request_id})")

    def _columns(self, x: int) -> list[Column]:
        """What fits; wide terminals show waits and blocks too."""
        held = self.model.state.pool.held if self.model is not None else {}
        columns = [
            Column(x + 6, "tui.requests.prompt", lambda r: numbers.count(r["num_prompt_tokens"])),
            Column(x + 12, "tui.requests.hit", _hit),
            Column(x + 20, "tui.requests.out", _out),
            Column(x + 28, "tui.requests.ttft", _ttft, is_strong=True),
            Column(x + 37, "tui.requests.itl", lambda r: numbers.duration(r["max_gap_ns"])),
            Column(x + 40, "tui.requests.preempted", lambda r: str(r["num_preemptions"] or "·")),
        ]
        if self.size.width >= 110:
            columns += [
                Column(x + 49, "tui.requests.wait", _wait),
                Column(
                    x + 57, "tui.requests.blocks", lambda r: str(held.get(r["request_id"], "·"))
                ),
            ]
        return columns

    def _lines(self) -> list[Line]:
        """By state, then arrival; or as was asked."""
        model = self.model
        if model is None:
            return []
        state = model.state
        running = [Line("running", state.requests[r]) for r in state.running if r in state.requests]
        waiting = [
            Line("waiting" if r["away_seq"] is None else "preempted", r)
            for r in (state.requests[i] for i in state.waiting)
        ]
        done = [
            Line("done", r)
            for r in state.requests.values()
            if r["left_ns"] is not None and r["request_id"] not in state.running
        ]
        done.sort(key=lambda line: line.request["left_ns"], reverse=True)
        if self.filter != "all":
            kept = [line for line in (*running, *waiting, *done) if self._is_kept(line)]
            return self._sorted(kept)
        if self.sort != "state":
            return self._sorted([*running, *waiting, *done[:NUM_DONE]])
        folded = len(waiting) - NUM_WAITING
        if folded > 1:
            waiting = [*waiting[:NUM_WAITING], Line("fold", {}, folded)]
        return [*running, *waiting, *done[:NUM_DONE]]

    def _is_kept(self, line: Line) -> bool:
        if self.filter == "preempted":
            return bool(line.request["num_preemptions"])
        return line.status == self.filter or (
            self.filter == "waiting" and line.status == "preempted"
        )

    def _sorted(self, lines: list[Line]) -> list[Line]:
        keys: dict[str, Callable[[Line], Any]] = {
            "arrival": lambda line: line.request["arrival_ns"],
            "ttft": lambda line: -(_ttft_ns(line.request) or -1),
            "itl": lambda line: -(line.request["max_gap_ns"] or -1),
            "out": lambda line: -line.request["num_output_tokens"],
        }
        return sorted(lines, key=keys[self.sort]) if self.sort in keys else lines

    def _selected_id(self) -> int | None:
        lines = self._lines()
        place = self._selected_place(lines)
        return lines[place].request.get("request_id") if 0 <= place < len(lines) else None

    def _selected_place(self, lines: list[Line]) -> int:
        here = self.desk.places.here.request_id
        places = (i for i, line in enumerate(lines) if line.request.get("request_id") == here)
        return next(places, 0)


def _hit(request: dict[str, Any]) -> str:
    hit = request["num_cached_tokens"]
    return numbers.NOTHING if hit is None else "·" if hit == 0 else numbers.count(hit)


def _out(request: dict[str, Any]) -> str:
    limit = request["max_tokens"]
    return f"{request['num_output_tokens']}/{'∞' if limit is None else limit}"


def _ttft_ns(request: dict[str, Any]) -> int | None:
    if request["first_token_ns"] is None or not request["arrival_ns"]:
        return None
    return int(request["first_token_ns"] - request["arrival_ns"])


def _ttft(request: dict[str, Any]) -> str:
    return numbers.duration(_ttft_ns(request))


def _wait(request: dict[str, Any]) -> str:
    """From its arrival to the step that admitted it."""
    if request["admitted_ns"] is None or not request["arrival_ns"]:
        return numbers.duration(None)
    return numbers.duration(request["admitted_ns"] - request["arrival_ns"])
