"""The pool as a grid by physical id, in the largest cells that fit: a label and a fill, down to half a cell.

    9x2  r91·1      7x2, 5x2  r91     5x1  r91     2x1      ▀ two blocks a cell
         ████╱╱               ██╱

A used block has its holder's hue, filled as far as tokens are in it, the rest hatched; a shared one is
white and says how many share it; one that is free but cached keeps its last owner's hue, very dim.
"""

from dataclasses import dataclass
from math import ceil

from rich.style import Style

from workbench.look.palette import label_of, mix
from workbench.replay_pool import Block
from workbench.tui.brush import Area, Brush
from workbench.tui.canvas import Cell
from workbench.tui.model import Model
from workbench.tui.theme import FULL, GHOST, HATCH

SIZES = ((9, 2), (7, 2), (5, 2), (5, 1), (2, 1), (1, 0))
"""Cell width and rows, largest first; 0 rows: two blocks share a cell."""
LABEL_WIDTH = 5
MAX_OUT = 99
"""Eviction places are written for the first so many."""
AGES = 64
"""Steps after which a block counts as cold, in the picture of ages."""


@dataclass(frozen=True, slots=True)
class Grid:
    """How the blocks are laid out."""

    width: int
    """Of a cell, without the gap beside it."""
    height: int
    """Rows of a cell; 0: half a row."""
    columns: int
    first: int
    """Block id in the upper left."""
    rows: int
    """Rows of blocks that are shown."""

    @property
    def gap(self) -> int:
        """Cells between two blocks."""
        return 1 if self.width > 2 else 0

    def place(self, block_id: int, area: Area) -> tuple[int, int] | None:
        """Upper left cell of a block; None: it is not shown."""
        n = block_id - self.first
        row, column = divmod(n, self.columns)
        if n < 0 or row >= self.rows:
            return None
        y = row // 2 if self.height == 0 else row * self.height
        return area.x + LABEL_WIDTH + column * (self.width + self.gap), area.y + y


def layout(area: Area, num_blocks: int, *, zoom: int = 0, around: int | None = None) -> Grid:
    """The largest cells with which all blocks fit; or `zoom` sizes larger, and the part around a block."""
    room = area.width - LABEL_WIDTH
    best = len(SIZES) - 1
    for i, (width, height) in enumerate(SIZES):
        if _num_rows(num_blocks, _columns(room, width), height) <= area.height:
            best = i
            break
    width, height = SIZES[max(0, best - zoom)]
    columns = _columns(room, width)
    shown = area.height * 2 if height == 0 else area.height // height
    last_row = max(0, ceil(num_blocks / columns) - shown)
    row = 0 if around is None else max(0, min(last_row, (around - 1) // columns - shown // 2))
    return Grid(width, height, columns, 1 + row * columns, shown)


def draw_grid(
    brush: Brush,
    area: Area,
    model: Model,
    grid: Grid,
    *,
    selected: int | None = None,
    ages: bool = False,
    places: dict[int, int] | None = None,
) -> None:
    """Draw the blocks; `places`: eviction places by block, to be written into free ones."""
    blocks, y = model.state.blocks, area.y
    last = min(len(blocks), grid.first - 1 + grid.columns * grid.rows)
    step = 2 if grid.height == 0 else 1
    for row in range(0, ceil((last - grid.first + 1) / grid.columns), step):
        start = grid.first + row * grid.columns
        if row % (4 * step) == 0 or grid.height:
            brush.canvas.put_right(area.x + LABEL_WIDTH - 1, y, str(start), brush.style("mute"))
        y += max(1, grid.height)
    if grid.height == 0:
        _draw_halves(brush, area, model, grid, selected, ages)
        return
    colours = colours_of(brush, model, ages=ages)
    column = model.timeline.column(model.step)
    for block_id in range(grid.first, last + 1):
        place = grid.place(block_id, area)
        if place is not None:
            look = Look(model, blocks[block_id], colours[block_id])
            _draw_cell(brush, place, grid, look, (places or {}).get(block_id))
            if column is not None and block_id in column.given and grid.width > 2:
                corner = brush.theme.style("ground", look.colour, bold=True)
                brush.canvas.put(place[0] + grid.width - 1, place[1], brush.glyphs.new, corner)
            if block_id == selected:
                _mark_selected(brush, place, grid)


def draw_small_grid(brush: Brush, area: Area, model: Model) -> None:
    """The pool in whatever room there is: a strip in a row, a grid in more."""
    num_blocks = len(model.state.blocks)
    if area.height > 2:
        places = eviction_places(model)
        draw_grid(brush, area, model, layout(area, num_blocks), places=places)
        return
    colours = list(colours_of(brush, model).values())
    squares = 1 if num_blocks <= area.width or brush.theme.is_mono else 2
    each = max(1, ceil(num_blocks / (area.width * squares)))
    groups = [colours[start : start + each] for start in range(0, num_blocks, each)]
    shown = [max(set(group), key=group.count) for group in groups]
    cells: list[Cell] = []
    for i in range(0, len(shown), squares):
        if brush.theme.is_mono:
            cells.append((_letter(model, 1 + i * each, brush), brush.style("ink")))
        elif squares == 1:
            cells.append((" ", brush.style("ink", shown[i])))
        else:
            lower = shown[i + 1] if i + 1 < len(shown) else brush.theme.tokens["ground"]
            cells.append((brush.glyphs.upper, brush.style(shown[i], lower)))
    brush.canvas.cells(area.x, area.y, cells)


def eviction_places(model: Model) -> dict[int, int]:
    """Place in the free queue, 1 is next out, of the first `MAX_OUT` blocks."""
    order = model.state.pool.eviction_order()[:MAX_OUT]
    return {block.block_id: i + 1 for i, block in enumerate(order)}


def num_tokens_in(model: Model, block: Block) -> int:
    """Tokens whose KV is in a used block."""
    size = model.block_size
    filled = [
        max(0, min(size, model.request(who).get("num_computed_tokens", 0) - (idx or 0) * size))
        for who, idx in block.holders.items()
    ]
    return max(filled, default=0)


def colours_of(brush: Brush, model: Model, *, ages: bool = False) -> dict[int, str]:
    """The colour of every block, by id; only what changed is worked out again."""
    pool = model.state.pool
    if ages:
        return {i: _age_colour(brush, model, block) for i, block in pool.blocks.items()}
    kept = model.colours
    if kept is None or kept[0] is not pool or kept[1] is not brush.theme:
        kept = model.colours = (pool, brush.theme, {})
        pool.changed = set(pool.blocks)
    colours = kept[2]
    for block_id in pool.changed:
        block = pool.blocks[block_id]
        owner = next(iter(block.holders), block.last_owner)
        state = "shared" if len(block.holders) > 1 else block.state
        colours[block_id] = _owner_colour(brush, owner, state)
    pool.changed.clear()
    return colours


class Look:
    """What a block looks like in a cell that has room for more than a colour."""

    def __init__(self, model: Model, block: Block, colour: str) -> None:
        self.block, self.model, self.colour = block, model, colour
        self.owner = next(iter(block.holders), block.last_owner)
        self.is_shared = len(block.holders) > 1
        self.is_used = block.state == "used"
        self.is_cached = block.state == "cached"

    @property
    def label(self) -> str:
        """Whose block, and which of its blocks."""
        block = self.block
        if self.is_shared:
            return f"×{len(block.holders)}"
        if self.owner is None or not (self.is_used or self.is_cached):
            return ""
        return label_of(self.owner)

    @property
    def idx(self) -> int | None:
        """Place in the owner's table."""
        if self.is_used:
            return next(iter(self.block.holders.values()), None)
        return self.block.last_idx


def _owner_colour(brush: Brush, owner: int | None, state: str) -> str:
    if state == "shared":
        return brush.theme.tokens["ink"]
    if owner is None or state == "free":
        return brush.theme.tokens["panel"]
    return brush.theme.hue(owner, FULL if state == "used" else GHOST)


def _age_colour(brush: Brush, model: Model, block: Block) -> str:
    """Light = touched just now, dark = long ago."""
    tokens, touched = brush.theme.tokens, block.touched_step
    if touched is None:
        return tokens["panel"]
    share = max(0.12, 1 - max(0, model.step - touched) / AGES)
    return mix(tokens["series"], tokens["ground"], share)


def _columns(room: int, width: int) -> int:
    columns = max(1, (room + 1) // (width + 1) if width > 2 else room // width)
    if width <= 2 and columns > 16:
        columns -= columns % 16
    return columns


def _num_rows(num_blocks: int, columns: int, height: int) -> int:
    rows = ceil(num_blocks / columns)
    return ceil(rows / 2) if height == 0 else rows * height


def _draw_cell(
    brush: Brush, place: tuple[int, int], grid: Grid, look: Look, out: int | None
) -> None:
    """A block in a cell of one or two rows."""
    (x, y), width, theme = place, grid.width, brush.theme
    text = look.label
    if width >= 7 and text and look.idx is not None and not look.is_shared:
        text = f"{text}·{look.idx}"
    head, body = _styles(brush, look)
    if width <= 2:
        brush.canvas.fill(x, y, width, body)
        return
    brush.canvas.fill(x, y, width, head)
    brush.canvas.put(x, y, text[:width], head)
    if grid.height < 2:
        if out is not None and not text:
            brush.canvas.put_right(x + width, y, str(out), theme.style("mute", look.colour))
        return
    brush.canvas.fill(x, y + 1, width, body)
    if look.is_used:
        _draw_fill(brush, x, y + 1, width, look)
    elif out is not None:
        said = brush.words("tui.blocks.out", n=out)
        brush.canvas.put_right(x + width, y + 1, said[-width:], body)


def _draw_fill(brush: Brush, x: int, y: int, width: int, look: Look) -> None:
    """How far the block is filled; what is paid for and not used is hatched."""
    size = look.model.block_size
    tokens = num_tokens_in(look.model, look.block)
    if tokens >= size:
        return
    filled = round(tokens / size * width)
    hue = brush.theme.tokens["ink"] if look.owner is None else brush.theme.hue(look.owner, HATCH)
    brush.canvas.fill(x + filled, y, width - filled, brush.style(hue), brush.glyphs.hatch)


def _styles(brush: Brush, look: Look) -> tuple[Style, Style]:
    """Of the label's row and of the fill's."""
    theme = brush.theme
    if look.is_shared:
        return brush.style("ground", "ink", bold=True), brush.style("ground", "ink")
    if look.owner is None or not (look.is_used or look.is_cached):
        plain = brush.style("mute", look.colour)
        return plain, plain
    if look.is_cached:
        ghost = theme.chip(look.owner, ghost=True)
        return ghost, ghost
    chip = theme.chip(look.owner)
    return chip, chip


def _draw_halves(
    brush: Brush, area: Area, model: Model, grid: Grid, selected: int | None, ages: bool
) -> None:
    """Two rows of blocks in a row of cells."""
    blocks, theme = model.state.blocks, brush.theme
    ground = theme.tokens["ground"]

    colours = colours_of(brush, model, ages=ages)
    if selected is not None:
        colours = colours | {selected: theme.tokens["hi"]}

    for i in range(area.height):
        start = grid.first + 2 * i * grid.columns
        if start not in blocks:
            break
        cells: list[Cell] = []
        for block_id in range(start, start + grid.columns):
            upper = colours.get(block_id, ground)
            lower = colours.get(block_id + grid.columns, ground)
            if theme.is_mono:
                cells.append((_letter(model, block_id, brush), brush.style("ink")))
            else:
                cells.append((brush.glyphs.upper, brush.style(upper, lower)))
        brush.canvas.cells(area.x + LABEL_WIDTH, area.y + i, cells)


def _letter(model: Model, block_id: int, brush: Brush) -> str:
    """A block without colours: used, cached or free."""
    block = model.state.blocks.get(block_id)
    if block is None:
        return " "
    return {"used": brush.glyphs.decode, "cached": brush.glyphs.queue}.get(block.state, " ")


def _mark_selected(brush: Brush, place: tuple[int, int], grid: Grid) -> None:
    (x, y), style = place, brush.style("hi", bold=True)
    for row in range(grid.height):
        brush.canvas.put(x - 1, y + row, brush.glyphs.left, style)
        brush.canvas.put(x + grid.width, y + row, brush.glyphs.right, style)
