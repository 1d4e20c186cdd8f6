"""The steps picture: tokens per step against the budget, above one lane per seat.

    tokens  ▂  █   ▂ █          one bar a step: prefill on top of decode; its ground is the budget
    seats   ▀▀▀▀▀▀▀▀▀▀▀▀        two lanes a row; dim = prefill, full = decode, red = preempted
    ────────┴20──────┴40        axis, with the cursor's step

Without colours each lane has a row of its own and writes what colour would say: `r88▒━━━━━━✕`.
"""

from collections.abc import Mapping, Sequence

from workbench.look.palette import label_of
from workbench.tui.brush import Area, Brush
from workbench.tui.canvas import Cell
from workbench.tui.theme import GHOST, LANE, PREFILL
from workbench.tui.timeline import Column

LABEL_WIDTH = 9
TICK = 20
"""Steps between two marks of the axis."""
Seat = tuple[int, str]


def draw_steps(
    brush: Brush, area: Area, columns: Sequence[Column], cursor: int, *, token_rows: int
) -> None:
    """The columns with the newest at the right edge; `cursor`: the step that is marked."""
    x0 = area.x + LABEL_WIDTH
    shown = list(columns)[-(area.right - x0) :]
    left = area.right - len(shown)
    lane_rows = area.height - token_rows - 1
    brush.say(area.x, area.y, brush.words("tui.steps.tokens"), "mute", width=LABEL_WIDTH)
    brush.say(
        area.x, area.y + token_rows, brush.words("tui.steps.seats"), "mute", width=LABEL_WIDTH
    )
    if shown and token_rows > 1:
        budget = f"≤{shown[-1].row['token_budget']:,}"
        brush.say(area.x, area.y + 1, budget, "faint", width=LABEL_WIDTH)
    _draw_tokens(brush, Area(left, area.y, len(shown), token_rows), shown, cursor)
    lanes = Area(left, area.y + token_rows, len(shown), lane_rows)
    if brush.theme.is_mono or brush.glyphs.is_ascii:
        _draw_letters(brush, lanes, shown)
    else:
        _draw_lanes(brush, lanes, shown)
    axis = Area(x0, area.y + token_rows + lane_rows, area.right - x0, 1)
    _draw_axis(brush, axis, shown, left, cursor)


def num_seats(columns: Sequence[Column]) -> int:
    """How many lanes these steps need."""
    return max((seat + 1 for column in columns for seat in column.seats), default=0)


def _draw_tokens(brush: Brush, area: Area, shown: Sequence[Column], cursor: int) -> None:
    """A bar a step, in eighths of a cell: decode tokens at the bottom, prefill tokens on top."""
    if area.height <= 0:
        return
    bars = [_tokens(brush, column, area.height, column.step == cursor) for column in shown]
    for i, cells in enumerate(zip(*bars, strict=True)):
        brush.canvas.cells(area.x, area.y + i, cells)


def _tokens(brush: Brush, column: Column, rows: int, is_cursor: bool) -> list[Cell]:
    """A step's bar from the top; a step is drawn once and then moves to the left."""
    key = (brush.theme, rows, is_cursor)
    if column.bar is None or column.bar[0] != key:
        column.bar = (key, _column(brush, column.row, rows, "raised" if is_cursor else "panel"))
    return column.bar[1]


def _column(brush: Brush, row: Mapping[str, int], rows: int, ground: str) -> list[Cell]:
    """One bar, from the top."""
    whole, of = rows * 8, max(1, row["token_budget"])
    total = min(whole, _eighths(row["num_tokens"], of, whole))
    low = min(total, _eighths(row["num_tokens"] - row["num_prefill_tokens"], of, whole))
    bases = [(rows - 1 - i) * 8 for i in range(rows)]
    return [_bar(brush, ground, min(8, total - base), min(8, low - base)) for base in bases]


def _bar(brush: Brush, ground: str, total: int, low: int) -> Cell:
    """One cell of a bar: filled up to `total` eighths, of these the lower `low` in the second colour."""
    marks = brush.glyphs.spark + brush.glyphs.full
    if total <= 0:
        return (" ", brush.style("ink", ground))
    if low <= 0 or low < total < 8:  # three colours do not fit in a cell: the upper one wins
        return (marks[total - 1], brush.style("series", ground))
    if low == total:
        return (marks[total - 1], brush.style("series2", ground))
    return (marks[low - 1], brush.style("series2", "series"))


def _eighths(tokens: int, budget: int, height: int) -> int:
    if tokens <= 0:
        return 0
    return max(1, round(tokens / budget * height))


def _draw_lanes(brush: Brush, area: Area, shown: Sequence[Column]) -> None:
    """Half-block squares: the upper lane is the foreground, the lower one the background."""
    drawn = [_lanes(brush, column, area.height) for column in shown]
    for i, cells in enumerate(zip(*drawn, strict=True)):
        brush.canvas.cells(area.x, area.y + i, cells)


def _lanes(brush: Brush, column: Column, num_rows: int) -> list[Cell]:
    """A step's squares from the top, kept like its bar."""
    key = (brush.theme, num_rows)
    if column.lanes is not None and column.lanes[0] == key:
        return column.lanes[1]
    seats = column.seats
    cells = [_square(brush, seats.get(2 * i), seats.get(2 * i + 1)) for i in range(num_rows)]
    column.lanes = (key, cells)
    return cells


def _square(brush: Brush, above: Seat | None, below: Seat | None) -> Cell:
    upper, lower = _colour(brush, above), _colour(brush, below)
    if upper == lower:
        return (" ", brush.style(upper, upper))
    return (brush.glyphs.upper, brush.style(upper, lower))


def _colour(brush: Brush, seat: Seat | None) -> str:
    if seat is None:
        return brush.theme.tokens["ground"]
    request_id, phase = seat
    share = {"p": PREFILL, "d": LANE, "s": GHOST}.get(phase)
    return brush.theme.tokens["alarm"] if share is None else brush.theme.hue(request_id, share)


def _draw_letters(brush: Brush, area: Area, shown: Sequence[Column]) -> None:
    """One row a seat; the name is written where a request begins."""
    glyphs, plain, strong = brush.glyphs, brush.style("ink"), brush.style("alarm", bold=True)
    marks = {"p": glyphs.prefill, "d": glyphs.heavy, "s": glyphs.queue, "x": glyphs.preempt}
    for seat in range(area.height):
        cells: list[Cell] = []
        before: int | None = None
        name = ""
        for column in shown:
            taken = column.seats.get(seat)
            if taken is None:
                cells.append((" ", plain))
                before = None
                continue
            request_id, phase = taken
            if request_id != before:
                name, before = label_of(request_id), request_id
            if name and phase != "x":
                cells.append((name[0], strong))
                name = name[1:]
            else:
                cells.append((marks[phase], strong if phase == "x" else plain))
        brush.canvas.cells(area.x, area.y + seat, cells)


def _draw_axis(brush: Brush, area: Area, shown: Sequence[Column], left: int, cursor: int) -> None:
    """A rule with ticks, and the cursor's step."""
    y, glyphs = area.y, brush.glyphs
    brush.canvas.fill(area.x, y, area.width, brush.style("rule"), glyphs.line)
    end_of_last = area.x - 2
    at = next((left + i for i, c in enumerate(shown) if c.step == cursor), None)
    mark = f"{cursor}"
    low = area.right if at is None else max(area.x, min(at, area.right - 1 - len(mark)) - 1)
    for i, column in enumerate(shown):
        if column.step % TICK:
            continue
        x = left + i
        text = str(column.step)
        crowds = x <= end_of_last + 1 or (
            at is not None and x + len(text) + 1 >= low and x <= at + len(mark)
        )
        if not crowds and x + len(text) < area.right:
            brush.canvas.put(x, y, glyphs.tick, brush.style("mute"))
            brush.say(x + 1, y, text, "mute")
            end_of_last = x + len(text)
    if at is not None:
        if at + len(mark) + 1 < area.right:
            brush.say(at, y, glyphs.here + mark, "hi", bold=True)
        else:
            brush.say(at - len(mark), y, mark + glyphs.here, "hi", bold=True)
