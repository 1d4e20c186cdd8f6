"""Screen 2, Batch: one step, its members and what became of everybody.

The steps picture with the cursor in it; below, the step as one bar, members by tokens and the rest of the
budget hatched; then a line for each member: who was preempted first, then who came in or got a chunk,
then decodes that took a block; the others are folded. At the end, who stood first in the queue and was
not taken, and why.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.binding import BindingType

from tracing.codes import Code
from tracing.record import Level
from workbench.replay_facts import ADMITTED, Part
from workbench.tui import numbers
from workbench.tui.brush import Area, Brush
from workbench.tui.canvas import pad
from workbench.tui.keys import bindings_of
from workbench.tui.log import Entry, admission
from workbench.tui.model import Model, why_none
from workbench.tui.steps_picture import draw_steps
from workbench.tui.theme import PREFILL
from workbench.tui.timeline import Column
from workbench.tui.view import View

LATER = 4
"""One part in so many of the picture shows steps after the cursor, in a replay."""


@dataclass(frozen=True, slots=True)
class Member:
    """A line of the table."""

    request_id: int
    part: str
    """Key of its word: preempt, admit, resume, chunk, decode, skip."""
    had: Part | None
    """What it had in the step; None: it computed nothing."""
    new_blocks: int
    why: Entry | None


class Batch(View):
    """One step."""

    NAME = "batch"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("batch")

    selected = 0
    shows_tokens = True

    def opens(self) -> tuple[str, int] | None:
        """Down to the member."""
        members = self._members()
        if not members:
            return None
        return "request", members[min(self.selected, len(members) - 1)].request_id

    def moved(self, rows: int) -> None:
        """Another member."""
        self.selected = max(0, min(self.selected + rows, len(self._members()) - 1))

    def action_toggle_tokens(self) -> None:
        """Tokens above the lanes, or lanes alone."""
        self.shows_tokens = not self.shows_tokens
        self.repaint()

    def paint(self, brush: Brush, model: Model) -> None:
        """Picture, bar, members."""
        width, height = self.size
        area = Area(1, 0, width - 2, max(7, height // 2 - 3 if self.is_boxed else height // 3 + 1))
        brush.heading(area, brush.words("tui.steps.title"), brush.words("tui.steps.legend"))
        room = Area(area.x, 1, area.width, area.height - 1)
        later = (room.width // LATER) if not self.desk.session.is_following else 0
        columns = model.timeline.upto(model.step + later, room.width)
        token_rows = (room.height // 3 if self.is_boxed else 1) if self.shows_tokens else 0
        draw_steps(brush, room, columns, model.step, token_rows=token_rows)
        held = self.desk.session.held
        if held is not None and held["plan"] is not None:
            plan = Area(area.x, area.height, area.width, height - area.height)
            self._paint_plan(brush, model, held["plan"], plan)
            return
        column = model.timeline.column(model.step)
        rest = Area(area.x, area.height, area.width, height - area.height)
        if column is None:
            text = why_none(model.state.level, Level.STEPS, "tui.no_steps", brush.words)
            brush.say(rest.x, rest.y, text, "mute")
            return
        self._paint_step(brush, model, column, rest)

    # -- a step that is held ---------------------------------------------------------------------

    def _paint_plan(self, brush: Brush, model: Model, plan: dict[str, Any], area: Area) -> None:
        """What would run: dashed, because it has not."""
        words = brush.words
        title = f"{words('tui.batch.plan')} {plan['step']}"
        brush.heading(area, title, words("tui.batch.plan_note"))
        budget, x = max(1, plan["token_budget"]), area.x
        scale = max(0.0, area.width - len(plan["rows"])) / budget
        for row in plan["rows"]:
            width = 1 + int(row["num_scheduled_tokens"] * scale)
            style = brush.style(brush.theme.hue(row["request_id"]))
            brush.canvas.fill(x, area.y + 1, min(width, area.right - x), style, brush.glyphs.away)
            x += width
        entries = {e.request_id: e for e in model.timeline.loose if e.kind == "preempt"}
        members = [Member(who, "preempt", None, 0, entries.get(who)) for who in plan["preempted"]]
        for i, row in enumerate(plan["rows"]):
            planned = Part(
                step=plan["step"],
                row=i,
                num_tokens=row["num_computed_tokens"] + row["num_scheduled_tokens"],
                num_cached_tokens=row["num_computed_tokens"],
                is_prefill=row["code"] not in (Code.RUN_DECODE, Code.MIX_DECODE, Code.PAD_STATIC),
                **row,
            )
            members.append(_member(planned, {}, {}))
        self._paint_table(brush, members, Area(area.x, area.y + 2, area.width, area.height - 2))

    # -- the step --------------------------------------------------------------------------------

    def _paint_step(self, brush: Brush, model: Model, column: Column, area: Area) -> None:
        row, words = column.row, brush.words
        note = words(
            "tui.batch.note",
            time=numbers.fine(row["end_ns"] - row["start_ns"]),
            rows=row["num_rows"],
            seats=row["max_num_seqs"],
            tokens=numbers.count(row["num_tokens"]),
            budget=numbers.count(row["token_budget"]),
            free=numbers.count(row["free_blocks"] + row["cached_free_blocks"]),
        )
        brush.heading(area, words("tui.batch.step", step=column.step), note)
        self._paint_bar(brush, column, Area(area.x, area.y + 1, area.width, 1))
        members = self._members()
        self.selected = max(0, min(self.selected, len(members) - 1))
        self._paint_table(brush, members, Area(area.x, area.y + 2, area.width, area.height - 2))

    def _paint_bar(self, brush: Brush, column: Column, area: Area) -> None:
        """The budget as one bar: each member as wide as its tokens, at least one cell."""
        row, x = column.row, area.x
        budget = max(1, row["token_budget"])
        num_rows = max(1, len(column.parts))
        scale = max(0.0, area.width - num_rows) / budget
        for part in column.parts:
            width = 1 + int(part.num_scheduled_tokens * scale)
            hue = brush.theme.hue(part.request_id, PREFILL if part.is_prefill else 1.0)
            mark = brush.glyphs.decode if brush.theme.is_mono else " "
            brush.canvas.fill(x, area.y, min(width, area.right - x), brush.style("ink", hue), mark)
            x += width
        unused = budget - row["num_tokens"]
        if unused > 0 and x < area.right:
            brush.hatch(x, area.y, area.right - x)
            text = f" {brush.words('tui.batch.unused', n=numbers.count(unused))} "
            if x + 3 + len(text) < area.right:
                brush.say(x + 2, area.y, text, "mute")

    def _paint_table(self, brush: Brush, members: list[Member], area: Area) -> None:
        words, chip = brush.words, max(4, brush.chip_width([m.request_id for m in members]))
        part, tokens = area.x + chip + 1, area.x + chip + 16
        computed, blocks = tokens + 13, tokens + 21
        why = blocks + 2
        for right, key in ((tokens, "tokens"), (computed, "computed"), (blocks, "blocks")):
            brush.canvas.put_right(right, area.y, words(f"tui.batch.{key}"), brush.style("mute"))
        brush.say(part, area.y, words("tui.batch.part"), "mute", width=8)
        brush.say(why, area.y, words("tui.batch.why"), "mute")
        room = area.height - 1
        first = max(0, min(self.selected - room // 2, len(members) - room))
        below = len(members) - first - room
        if below > 0:
            room -= 1
            text = words("tui.more_below", n=below + 1)
            brush.say(part, area.y + area.height - 1, text, "mute")
        for i, member in enumerate(members[first : first + room]):
            y = area.y + 1 + i
            is_selected = first + i == self.selected and self.has_focus
            bg = "raised" if is_selected else "ground"
            if is_selected:
                brush.canvas.fill(0, y, self.size.width, brush.style("ink", bg))
                brush.canvas.put(0, y, brush.glyphs.pointer, brush.style("hi", bg))
            ghost = member.had is None
            brush.chip(area.x, y, member.request_id, ghost=ghost, width=chip)
            self._paint_part(brush, member, part, y, bg)
            self._paint_counts(brush, member, (tokens, computed, blocks), y, bg)
            text = self._why(member)
            fg = "hi" if member.part == "preempt" else "ink" if member.why else "mute"
            brush.say(why, y, text, fg, bg=bg, width=area.right - why)
            self.spot(Area(0, y, self.size.width, 1), f"screen.open_request({member.request_id})")

    def _paint_part(self, brush: Brush, member: Member, x: int, y: int, bg: str) -> None:
        if member.part == "decode":
            brush.say(x, y, brush.words("tui.batch.decode"), bg=bg)
            return
        is_alarm = member.part == "preempt"
        style = brush.style("alarm" if is_alarm else "ink", bg, bold=is_alarm)
        mark, word = brush.glyphs.kind(member.part), brush.words(f"common.{member.part}")
        brush.canvas.put(x, y, f"{mark} {pad(word, 7)}", style)

    def _paint_counts(
        self, brush: Brush, member: Member, at: tuple[int, int, int], y: int, bg: str
    ) -> None:
        had = member.had
        if had is None:
            for right in at:
                brush.number(right, y, numbers.NOTHING, bg=bg)
            return
        n, computed = had.num_scheduled_tokens, had.num_computed_tokens
        brush.number(at[0], y, numbers.count(n), bg=bg)
        change = f"{computed} {brush.glyphs.arrow} {computed + n}"
        brush.number(at[1], y, change, strong=False, bg=bg)
        new = f"+{member.new_blocks}" if member.new_blocks else "·"
        brush.number(at[2], y, new, strong=False, bg=bg)

    def _why(self, member: Member) -> str:
        if member.why is not None:
            text = self.say(member.why)
            if member.part == "skip":
                waiting = (
                    (self.model.state.step_row or {}).get("num_waiting", 0) if self.model else 0
                )
                if waiting > 1:
                    text = self.desk.words("tui.why.and_behind", reason=text, n=waiting - 1)
            return text
        if member.part == "decode" and member.new_blocks:
            return self.desk.words("tui.batch.new_block")
        return ""

    # -- who ------------------------------------------------------------------------------------

    def _members(self) -> list[Member]:
        """By how much there is to say about them."""
        model = self.model
        column = None if model is None else model.timeline.column(model.step)
        if model is None or column is None:
            return []
        new = Counter(column.given.values())
        entries = column.entries
        found = [
            Member(e.request_id, "preempt", None, 0, e)
            for e in entries
            if e.kind == "preempt" and e.request_id is not None
        ]
        reasons = {e.request_id: e for e in entries if e.kind in ("admit", "resume", "chunk")}
        rows = [_member(part, new, reasons) for part in column.parts]
        found += [m for m in rows if m.part != "decode"]
        found += [m for m in rows if m.part == "decode" and m.new_blocks]
        found += [m for m in rows if m.part == "decode" and not m.new_blocks]
        found += [
            Member(e.request_id, "skip", None, 0, e)
            for e in entries
            if e.kind == "skip" and e.request_id is not None
        ]
        return found


def _member(had: Part, new: Mapping[int, int], reasons: dict[int | None, Entry]) -> Member:
    if had.code == Code.ADMIT_RESUMED:
        part = "resume"
    elif had.code in ADMITTED:
        part = "admit"
    else:
        part = "chunk" if had.is_prefill else "decode"
    why = reasons.get(had.request_id)
    if why is None and part == "chunk":
        why = admission(had)
    return Member(had.request_id, part, had, new.get(had.request_id, 0), why)
