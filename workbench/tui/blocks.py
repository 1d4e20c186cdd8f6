"""Screen 3, Blocks: the pool by physical id, who holds what, what goes out next.

grid      one cell a block, in the largest size that fits; z: larger, a: by age, e: places in the free
queue beside    how the pool is used, and the story of the selected block below     h: running requests in
logical order, each with its unfilled tail hatched; what is given out next
"""

from math import ceil
from typing import Any, ClassVar

from textual.binding import BindingType

from tracing.codes import Code
from workbench.look.palette import label_of
from workbench.replay_pool import Block
from workbench.tui import numbers
from workbench.tui.block_grid import Grid, draw_grid, eviction_places, layout, num_tokens_in
from workbench.tui.brush import Area, Brush
from workbench.tui.keys import bindings_of
from workbench.tui.model import Model
from workbench.tui.theme import FULL
from workbench.tui.view import View

STORY_LINES = 30


class Blocks(View):
    """The KV blocks."""

    NAME = "blocks"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of("blocks"),
        ("up", "select_row(-1)"),
        ("down", "select_row(1)"),
        ("left", "select(-1)"),
        ("right", "select(1)"),
    ]

    zoomed = 0
    shows_logical = True
    shows_ages = False
    shows_order = True
    _grid: Grid | None = None

    @property
    def selected(self) -> int:
        """The block that is looked at."""
        return self.desk.places.here.block_id or 1

    def opens(self) -> tuple[str, int] | None:
        """Down to the request that holds the block."""
        block = self._block()
        if block is None:
            return None
        owner = next(iter(block.holders), block.last_owner)
        return None if owner is None else ("request", owner)

    def action_select(self, by: int) -> None:
        """Another block."""
        if self.model is not None and self.model.state.blocks:
            last = len(self.model.state.blocks)
            block_id = max(1, min(last, self.selected + by))
            self.desk.places.turn_to(block_id=block_id)
            self.repaint()

    def action_select_row(self, by: int) -> None:
        """The block above or below."""
        self.action_select(by * (self._grid.columns if self._grid else 1))

    def moved(self, rows: int) -> None:
        """Pages and the mouse wheel move by rows."""
        self.action_select_row(rows)

    def action_toggle_logical(self) -> None:
        """The pool, or also requests in logical order."""
        self.shows_logical = not self.shows_logical
        self.repaint()

    def action_toggle_ages(self) -> None:
        """Colours say who, or how long ago."""
        self.shows_ages = not self.shows_ages
        self.repaint()

    def action_toggle_order(self) -> None:
        """Write places in the free queue, or not."""
        self.shows_order = not self.shows_order
        self.repaint()

    def action_zoom(self) -> None:
        """Larger cells; after the largest, all blocks again."""
        self.zoomed = 0 if self._grid is not None and self._grid.width >= 9 else self.zoomed + 1
        self.repaint()

    def paint(self, brush: Brush, model: Model) -> None:
        """Grid, use, block, logical order, next out, legend."""
        width, height = self.size
        if not model.state.has_blocks:
            level = model.state.level
            brush.say(
                1,
                1,
                brush.words("tui.not_recorded", level=numbers.NOTHING if level is None else level),
                "mute",
            )
            return
        side = 40 if self.is_boxed else 25
        left = Area(1, 0, width - side - 2, height - 4)
        right = Area(width - side, 0, side, height - 4)
        self._paint_left(brush, model, left)
        self._paint_use(brush, model, Area(right.x, 0, side, 7))
        self._paint_block(brush, model, Area(right.x, 8, side, height - 12))
        self._paint_next_out(brush, model, Area(1, height - 4, width - 1, 2))
        self._paint_legend(brush, height - 1)

    def _paint_left(self, brush: Brush, model: Model, area: Area) -> None:
        num_blocks = len(model.state.blocks)
        title = brush.words(
            "tui.blocks.title_n", n=numbers.count(num_blocks), size=model.block_size
        )
        brush.heading(Area(area.x, 0, area.width, 1), title)
        num_rows = len(model.state.running) if self.shows_logical else 0
        least = min(num_rows + 2, area.height // 2) if num_rows and area.height >= 18 else 0
        room = Area(area.x - 1, 1, area.width + 1, area.height - 1 - least)
        around = self.selected
        grid = self._grid = layout(room, num_blocks, zoom=self.zoomed, around=around)
        places = eviction_places(model) if self.shows_order else {}
        draw_grid(brush, room, model, grid, selected=around, ages=self.shows_ages, places=places)
        self._spot_blocks(room, grid, num_blocks)
        used = min(ceil(num_blocks / grid.columns), grid.rows)
        bottom = 1 + (ceil(used / 2) if grid.height == 0 else used * grid.height)
        rest = Area(area.x, bottom + 1, area.width, area.height - bottom - 1)
        if self.shows_logical and rest.height >= 3:
            self._paint_logical(brush, model, rest)

    def _spot_blocks(self, area: Area, grid: Grid, num_blocks: int) -> None:
        if grid.height == 0:
            return
        for block_id in range(
            grid.first, min(num_blocks, grid.first - 1 + grid.rows * grid.columns) + 1
        ):
            place = grid.place(block_id, area)
            if place is not None:
                self.spot(
                    Area(*place, grid.width, grid.height), f"select({block_id - self.selected})"
                )

    def _paint_logical(self, brush: Brush, model: Model, area: Area) -> None:
        """A row a running request: its tokens, and what its last block still has room for."""
        words = brush.words
        brush.heading(area, words("tui.blocks.logical"), words("tui.blocks.logical_note"))
        running = model.state.running
        chip = max(4, brush.chip_width(running))
        bars = Area(area.x + chip + 1, area.y + 1, area.width - chip - 18, area.height - 1)
        held = {who: model.state.pool.held.get(who, 0) for who in running}
        size = model.block_size
        scale = bars.width / max(1, max(held.values(), default=1) * size)
        for i, who in enumerate(running[: bars.height]):
            y = bars.y + i
            tokens = model.request(who).get("num_computed_tokens", 0)
            brush.chip(area.x, y, who, width=chip)
            whole, filled = round(held[who] * size * scale), round(tokens * scale)
            hue = brush.theme.hue(who, FULL)
            mark = brush.glyphs.decode if brush.theme.is_mono else " "
            brush.canvas.fill(bars.x, y, filled, brush.style("ink", hue), mark)
            brush.hatch(bars.x + filled, y, whole - filled, who)
            brush.number(area.right - 10, y, numbers.count(held[who]), strong=False)
            brush.number(area.right - 1, y, numbers.count(tokens))

    # -- beside ----------------------------------------------------------------------------------

    def _paint_use(self, brush: Brush, model: Model, area: Area) -> None:
        words, state = brush.words, model.state
        brush.heading(area, words("tui.blocks.use"))
        blocks = state.blocks.values()
        used = [block for block in blocks if block.state == "used"]
        cached = sum(block.state == "cached" for block in blocks)
        shared = sum(len(block.holders) > 1 for block in used)
        never = sum(block.touched_step is None for block in blocks)
        room = len(used) * model.block_size
        unused = room - sum(num_tokens_in(model, block) for block in used)
        brush.meter(area.x, 1, len(used) / max(1, len(state.blocks)), area.width - 1)
        waste = words("tui.blocks.unused_n", n=unused, share=numbers.percent(unused / max(1, room)))
        lines = [
            ("in_use", words("tui.part_of", n=len(used), of=len(state.blocks))),
            ("shared", str(shared)),
            ("cached_free", str(cached)),
            ("never", str(never)),
            ("unused", waste),
        ]
        for i, (key, value) in enumerate(lines):
            brush.say(area.x, 2 + i, words(f"tui.blocks.{key}"), "mute")
            brush.number(area.right - 1, 2 + i, value)

    def _paint_block(self, brush: Brush, model: Model, area: Area) -> None:
        """The selected block: whose, what, when it goes, what happened to it."""
        block, words = self._block(), brush.words
        if block is None or area.height < 4:
            return
        brush.heading(area, words("tui.blocks.block", id=block.block_id))
        y = area.y + 1
        x = brush.say(area.x, y, words("tui.blocks.held_by") + " ", "mute")
        holders = list(block.holders) or ([block.last_owner] if block.last_owner else [])
        if not holders:
            brush.say(x, y, words("tui.blocks.nobody"))
        for who in holders[:4]:
            x = 1 + brush.chip(x, y, who, ghost=not block.holders)
        y = self._paint_contents(brush, model, block, area, y + 1)
        story = self._story(model, block.block_id)
        if story is None:
            return
        for act in story[: area.y + area.height - y][::-1]:
            y = self._paint_act(brush, act, area, y)

    def _paint_contents(self, brush: Brush, model: Model, block: Block, area: Area, y: int) -> int:
        words, size = brush.words, model.block_size
        idx = next(iter(block.holders.values()), None) if block.holders else block.last_idx
        if idx is not None and block.state != "free":
            brush.say(area.x, y, words("tui.blocks.tokens") + " ", "mute")
            brush.say(area.x + 8, y, f"{idx * size}–{idx * size + size - 1}")
            y += 1
        if block.free_key is not None:
            order = model.state.pool.eviction_order()
            place = next(i for i, b in enumerate(order) if b is block) + 1
            key = "tui.blocks.place_cached" if block.state == "cached" else "tui.blocks.place_free"
            brush.say(area.x, y, words(key, place=place, of=len(order)), width=area.width)
            y += 1
        return y

    def _story(self, model: Model, block_id: int) -> list[dict[str, Any]] | None:
        engine = model.state.engine_id
        row = model.state.step_row
        if engine is None or row is None:
            return None
        return self.desk.answers.ask(
            "block_story", engine=engine, block=block_id, n_seq=row["seq"], limit=STORY_LINES
        )

    def _paint_act(self, brush: Brush, act: dict[str, Any], area: Area, y: int) -> int:
        key = {
            Code.KV_ALLOC: "given",
            Code.KV_RESERVED: "given",
            Code.KV_HIT: "shared_with",
            Code.KV_EVICT: "lost",
            Code.KV_CACHED: "cached",
            Code.KV_CACHED_COPY: "cached",
        }.get(act["code"], "freed")
        brush.canvas.put_right(area.x + 4, y, str(act["step"]), brush.style("mute"))
        mark = brush.glyphs.evict if key in ("lost", "freed") else brush.glyphs.admit
        x = brush.say(
            area.x + 5, y, f"{mark} {brush.words(f'tui.blocks.act_{key}')} ", width=area.width - 11
        )
        who = act["request_id"] if key != "lost" else act["other_id"]
        if who is not None:
            brush.chip(x, y, who, ghost=key in ("lost", "freed"), width=len(label_of(who)))
        return y + 1

    # -- below -----------------------------------------------------------------------------------

    def _paint_next_out(self, brush: Brush, model: Model, area: Area) -> None:
        """The front of the free queue."""
        words = brush.words
        is_tree = model.state.run.get("cache_kind") == "radix"
        note = words("tui.blocks.next_note_tree" if is_tree else "tui.blocks.next_note")
        brush.heading(area, words("tui.blocks.next"), note)
        x, y = area.x, area.y + 1
        for block in model.state.pool.eviction_order():
            text = f"{block.block_id:>3}"
            if x + len(text) + 1 > area.right:
                break
            if block.state == "cached" and block.last_owner is not None:
                style = brush.theme.chip(block.last_owner, ghost=True)
            else:
                style = brush.style("mute", "panel")
            brush.canvas.put(x, y, f"{text} ", style)
            x += len(text) + 2

    def _paint_legend(self, brush: Brush, y: int) -> None:
        words, x = brush.words, 1
        marks = (
            (" r9 ", brush.style("ground", "ink", bold=True), "owned"),
            (" ×2 ", brush.style("ground", "hi", bold=True), "shared"),
            (" r3 ", brush.style("mute", "raised"), "cached_free"),
            (brush.glyphs.hatch * 3, brush.style("ink"), "unused"),
            (brush.glyphs.new, brush.style("hi"), "new"),
        )
        for mark, style, key in marks:
            x = brush.canvas.put(x, y, mark, style)
            x = brush.say(x + 1, y, words(f"tui.blocks.{key}"), "mute") + 2

    def _block(self) -> Block | None:
        return None if self.model is None else self.model.state.blocks.get(self.selected)
