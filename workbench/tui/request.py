"""Screen 5, Request: one life. Where its time went, how long each token took, and every reason on the way.

facts    state, prompt, hit, output, TTFT, ITL
life     a bar from its arrival to now, and the time in each phase
tokens   a bar a token: height and light say how long it took; red: it was preempted in between
blocks   what it holds, filled as far as tokens are in it
answer   what it says, if the prompt was sent from here
why      admissions, waits, misses, preemptions, and tokens that came late, in order; a wait that repeats
         is told once
"""

from typing import Any, ClassVar

from rich.cells import cell_len
from textual.binding import BindingType

from tracing.codes import Code
from tracing.record import Level
from workbench.look.palette import label_of
from workbench.tui import numbers
from workbench.tui.answer import answer_of, draw_answer
from workbench.tui.block_grid import num_tokens_in
from workbench.tui.brush import Area, Brush
from workbench.tui.dialogs import Show
from workbench.tui.keys import bindings_of
from workbench.tui.life import draw_life, span_of
from workbench.tui.log import Entry
from workbench.tui.mode import news
from workbench.tui.model import Model, why_none
from workbench.tui.story import story_of
from workbench.tui.theme import FULL, PREFILL
from workbench.tui.view import View

PHASES = (
    *("receive", "tokenise", "to_core", "queue", "prefill", "decode", "preempted"),
    *("detokenise", "to_api", "deliver"),
)
TOKEN_ROWS = 4


class RequestView(View):
    """One request."""

    NAME = "request"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("request")

    selected: int | None = None
    """Line of the story; None: the newest."""

    @property
    def request_id(self) -> int | None:
        """Whom this is about: who was chosen, or the first that runs."""
        here = self.desk.places.here.request_id
        if here is not None or self.model is None:
            return here
        state = self.model.state
        return next(iter([*state.running, *state.waiting, *state.requests]), None)

    def opens(self) -> tuple[str, int] | None:
        """Down to the step of the line."""
        lines = self._story()
        if not lines:
            return None
        return "step", lines[self._place(lines)].step

    def moved(self, rows: int) -> None:
        """Another line of the story."""
        lines = self._story()
        if lines:
            self.selected = max(0, min(len(lines) - 1, self._place(lines) + rows))

    def action_neighbour(self, by: int) -> None:
        """The request that arrived next, or before."""
        here = self.request_id
        if self.model is None or here is None:
            return
        known = sorted(self.model.facts)
        place = known.index(here) if here in known else 0
        self.desk.places.turn_to(request_id=known[max(0, min(len(known) - 1, place + by))])
        self.selected = None
        self.repaint()

    def action_show_answer(self) -> None:
        """The whole answer, to read."""
        model, request_id, words = self.model, self.request_id, self.desk.words
        request = {} if model is None or request_id is None else model.request(request_id)
        answer = answer_of(self.desk, request)
        if answer is None:
            self.desk.session.say(news("tui.notice.no_answer"))
        else:
            title = f"{words('tui.request.answer')} {label_of(request_id)}"
            self.app.push_screen(Show(title, answer))

    def paint(self, brush: Brush, model: Model) -> None:
        """From the facts down to the reasons."""
        request_id = self.request_id
        if request_id is None:
            level = model.state.level
            text = why_none(level, Level.REQUESTS, "tui.request.none", brush.words)
            brush.say(1, 0, text, "mute")
            return
        request, width = model.request(request_id), self.size.width
        if not request:
            brush.chip(1, 0, request_id, ghost=True)
            brush.say(1, 1, brush.words("tui.request.not_here"), "mute")
            return
        self._paint_facts(brush, model, request)
        self._paint_life(brush, model, request, Area(1, 1, width - 1, 4))
        y = 5
        if self.size.height >= 18:
            y = self._paint_tokens(brush, request, Area(1, y, width - 1, TOKEN_ROWS + 1)) + 1
        y = self._paint_blocks(brush, model, request, Area(1, y, width - 1, 3))
        lines = self._story()
        answer = answer_of(self.desk, request)
        if answer is not None:
            area = Area(1, y, width - 1, self.size.height - y)
            y = draw_answer(brush, area, answer, len(lines))
        self._paint_why(brush, Area(1, y, width - 1, self.size.height - y), lines)

    # -- parts -----------------------------------------------------------------------------------

    def _paint_facts(self, brush: Brush, model: Model, request: dict[str, Any]) -> None:
        words, state = brush.words, model.state
        request_id = request["request_id"]
        status = "done"
        if request_id in state.running:
            status = "running"
        elif request["left_ns"] is None:
            status = "waiting" if request["away_seq"] is None else "preempted"
        width = max(4, brush.chip_width([request_id]))
        x = brush.chip(1, 0, request_id, ghost=status != "running", width=width) + 1
        x = brush.say(x, 0, words(f"tui.state.{status}"), "hi", bold=True) + 2
        limit = request["max_tokens"]
        ttft = _between(request, "arrival_ns", "first_token_ns")
        facts = [
            ("prompt", numbers.count(request["num_prompt_tokens"])),
            ("hit", numbers.count(request["num_cached_tokens"])),
            ("out", f"{request['num_output_tokens']}/{'∞' if limit is None else limit}"),
            ("ttft", numbers.duration(ttft).strip()),
            ("itl", numbers.duration(request["max_gap_ns"]).strip()),
        ]
        for key, value in facts:
            if x + 8 < self.size.width:
                x = brush.say(x, 0, words(f"tui.request.{key}") + " ", "mute")
                x = brush.say(x, 0, value, "hi", bold=True) + 2

    def _paint_life(self, brush: Brush, model: Model, request: dict[str, Any], area: Area) -> None:
        words = brush.words
        columns = model.timeline.upto(model.step, 10_000)
        own = [c for c in columns if c.row["end_ns"] >= request["arrival_ns"]]
        if request["left_ns"] is not None:
            own = [c for c in own if c.row["start_ns"] <= request["left_ns"]]
        note = words("tui.request.steps", a=own[0].step, b=own[-1].step) if own else ""
        brush.heading(area, words("tui.request.life"), note)
        if own:
            span = span_of(own, area.width - 1)
            draw_life(brush, Area(area.x, area.y + 1, span.width, 1), request, span)
        self._paint_phases(brush, model, request, Area(area.x, area.y + 2, area.width, 1))

    def _paint_phases(
        self, brush: Brush, model: Model, request: dict[str, Any], area: Area
    ) -> None:
        """Where the time went up to the cursor; if not all phases fit, the shortest ones are left out."""
        phases = self.desk.answers.ask("request_phases", request=request["request_id"])
        until_ns = model.until_ns
        totals: dict[str, int] = {}
        for phase in phases or ():
            spent = min(phase["end_ns"], until_ns) - phase["start_ns"]  # a replay knows more
            if spent > 0:
                totals[phase["phase"]] = totals.get(phase["phase"], 0) + spent
        if not totals:
            brush.say(area.x, area.y, brush.words("tui.request.open"), "mute")
            return
        told = {
            name: (brush.words(f"tui.phase.{name}") + " ", numbers.fine(totals[name]))
            for name in PHASES
            if name in totals
        }
        while sum(cell_len(word) + cell_len(time) + 2 for word, time in told.values()) > area.width:
            del told[min(told, key=lambda name: totals[name])]
        x = area.x
        for name, (word, time) in told.items():
            x = brush.say(x, area.y, word, "mute")
            fg = "alarm" if name == "preempted" else "hi"
            x = brush.say(x, area.y, time, fg, bold=True) + 2

    def _paint_tokens(self, brush: Brush, request: dict[str, Any], area: Area) -> int:
        """One bar a token, the newest at the right."""
        words, request_id = brush.words, request["request_id"]
        tokens = self.desk.answers.ask("request_tokens", request=request_id) or []
        now = request["num_output_tokens"]
        shown = [t for t in tokens if t["k"] < now]
        brush.heading(area, words("tui.request.tokens", n=now), words("tui.request.tokens_note"))
        gaps = [t["gap_ns"] for t in shown if t["gap_ns"] is not None]
        top = max(gaps, default=0)
        x0, room = area.x + 8, area.width - 9
        brush.say(area.x, area.y + 1, numbers.duration(top) if gaps else "", "faint")
        brush.say(area.x, area.y + area.height - 1, numbers.duration(0) if gaps else "", "faint")
        width = 3 if len(shown) * 3 <= room else 1
        away = self._steps_away(request_id)
        for i, token in enumerate(shown[-(room // width) :]):
            x = x0 + i * width
            if token["gap_ns"] is None:
                brush.canvas.put(x, area.y + area.height - 1, brush.glyphs.first, brush.style("hi"))
                continue
            is_alarm = token["step"] in away
            self._paint_bar(
                brush,
                x,
                area,
                token["gap_ns"] / max(1, top),
                request_id,
                max(1, width - 1),
                is_alarm,
            )
        return area.y + area.height

    def _paint_bar(
        self, brush: Brush, x: int, area: Area, share: float, who: int, width: int, is_alarm: bool
    ) -> None:
        rows = area.height - 1
        eighths = max(1, round(share * rows * 8))
        hue = brush.theme.tokens["alarm"] if is_alarm else brush.theme.hue(who, 0.45 + 0.55 * share)
        style = brush.style(hue)
        marks = brush.glyphs.spark + brush.glyphs.full
        for i in range(rows):
            filled = eighths - (rows - 1 - i) * 8
            if filled > 0:
                brush.canvas.put(x, area.y + 1 + i, marks[min(8, filled) - 1] * width, style)

    def _steps_away(self, request_id: int) -> set[int]:
        """Steps in which it came back after a preemption."""
        story = self.desk.answers.ask("request_story", request=request_id, lang="en") or []
        return {line["step"] for line in story if line["code"] == Code.ADMIT_RESUMED}

    def _paint_blocks(self, brush: Brush, model: Model, request: dict[str, Any], area: Area) -> int:
        words, request_id = brush.words, request["request_id"]
        blocks = model.state.pool.table(request_id)
        hit = request["num_cached_tokens"]
        note = (
            words("tui.request.hit_note", hit=hit, prompt=request["num_prompt_tokens"])
            if hit is not None
            else ""
        )
        brush.heading(area, words("tui.request.blocks", n=len(blocks)), note)
        x, y = area.x, area.y + 1
        for i, block in enumerate(blocks):
            if x + 6 > area.right - 5:
                brush.say(x, y, f"+{len(blocks) - i}", "mute")
                break
            share = num_tokens_in(model, block) / model.block_size
            hue, ground = (
                brush.theme.hue(request_id, FULL),
                brush.theme.hue(request_id, PREFILL / 2),
            )
            text = (
                f"{block.block_id:>4} "
                if len(block.holders) < 2
                else f"{block.block_id}×{len(block.holders)}"
            )
            for j, char in enumerate(f"{text:<5}"[:5]):
                is_full = j < round(share * 5)
                style = brush.theme.chip(request_id) if is_full else brush.style(hue, ground)
                brush.canvas.put(x + j, y, char, style)
            self.spot(Area(x, y, 5, 1), f"screen.open_block({block.block_id})")
            x += 6
        if not blocks:
            brush.say(x, y, words("tui.request.no_blocks"), "mute")
        return area.y + 3

    def _paint_why(self, brush: Brush, area: Area, lines: list[Entry]) -> None:
        words = brush.words
        brush.heading(area, words("tui.request.why"), words("tui.request.why_note"))
        if not lines:
            brush.say(area.x, area.y + 1, words("tui.request.no_story"), "mute")
            return
        room = area.height - 1
        selected = self._place(lines)
        first = max(0, min(selected - room // 2, len(lines) - room))
        chip = max(4, len(label_of(self.request_id)))
        for i, line in enumerate(lines[first : first + room]):
            is_selected = first + i == selected and self.selected is not None
            row = Area(area.x, area.y + 1 + i, area.width, 1)
            brush.entry(row, line, self.say, chip_width=chip, selected=is_selected)

    # -- the story -------------------------------------------------------------------------------

    def _story(self) -> list[Entry]:
        """Why, in order, up to the cursor."""
        request_id, model = self.request_id, self.model
        if request_id is None or model is None:
            return []
        return story_of(model, request_id, self.desk.answers, self.desk.words)

    def _place(self, lines: list[Entry]) -> int:
        return (
            len(lines) - 1 if self.selected is None else max(0, min(self.selected, len(lines) - 1))
        )


def _between(request: dict[str, Any], start: str, end: str) -> int | None:
    if not request.get(start) or request.get(end) is None:
        return None
    return int(request[end]) - int(request[start])
