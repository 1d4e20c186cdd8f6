"""Screen 1, Overview: how the engine is doing now, and why.

Three strips in the same hues say who waits, who runs and what they hold; rates and latencies are numbers
with a picture of how they came to be; the steps picture shows the batch through time; the log ends in
sentences.

    80 x 24      Now 3, Rates | Latency 5, Steps 9, Why 3
    120 x 36     the same in boxes, all rates, queue times
    200 x 60     three columns: blocks, and the lives of requests beside the log
"""

from typing import ClassVar

from textual.binding import BindingType

from tracing.record import Level
from workbench.tui import numbers
from workbench.tui.block_grid import draw_small_grid
from workbench.tui.brush import Area, Brush
from workbench.tui.life import draw_lives
from workbench.tui.log import folded
from workbench.tui.model import Model, why_none
from workbench.tui.rates import WINDOW_SECONDS, Rates, buckets, rates_at
from workbench.tui.steps_picture import draw_steps
from workbench.tui.view import View

LABEL = 11
METRICS = (("queue", "queue_ns"), ("ttft", "ttft_ns"), ("itl", "itl_ns"), ("e2e", "e2e_ns"))
RATES = ("prefill", "decode", "budget", "kv", "hit", "waiting", "preempted")


class Overview(View):
    """The whole engine at a glance."""

    NAME = "overview"
    BINDINGS: ClassVar[list[BindingType]] = []

    def opens(self) -> tuple[str, int] | None:
        """Down to the step at the cursor."""
        model = self.model
        return None if model is None or model.step < 0 else ("step", model.step)

    def paint(self, brush: Brush, model: Model) -> None:
        """By importance, so that a small terminal drops what matters least."""
        width, height = self.size
        margin = 0 if self.is_boxed else 1
        whole = Area(margin, 0, width - 2 * margin, height)
        if self.is_wide:
            self._paint_wide(brush, model, whole)
            return
        frame = 2 if self.is_boxed else 0
        now = Area(whole.x, 0, whole.width, 3 + frame)
        self.slowly(brush, "now", now, lambda: self._paint_now(brush, model, now))
        num_rates = 7 if self.is_boxed else 4
        rates_height = num_rates + (frame or 1)
        half = whole.width // 2
        top = now.height
        rates = Area(whole.x, top, half - (0 if self.is_boxed else 1), rates_height)
        self._paint_rates(brush, model, rates, num_rates)
        latency = Area(whole.x + half, top, whole.width - half, rates_height)
        self._paint_latency(brush, model, latency, with_queue=self.is_boxed)
        top += rates_height
        why = max(3 + (1 if frame else 0), (height - top) // 4 + frame)
        steps = Area(whole.x, top, whole.width, height - top - why)
        self._paint_steps(brush, model, steps)
        self._paint_why(brush, model, Area(whole.x, top + steps.height, whole.width, why))

    # -- now -------------------------------------------------------------------------------------

    def _paint_now(self, brush: Brush, model: Model, area: Area) -> None:
        """Who waits, who runs, what they hold."""
        room = area
        if self.is_boxed:
            room = brush.box(area, brush.words("tui.overview.now"), model.name)
        state, words = model.state, brush.words
        row = state.step_row or {}
        waiting, y = state.waiting, room.y
        x = room.x + (LABEL + 12 if room.width > 90 else LABEL + 11)
        right = room.right - (15 if room.width > 90 else 14)
        self._label(brush, room, 0, "tui.overview.waiting", len(waiting), None)
        self._strip(brush, x, y, right, waiting, ghost=True)
        if waiting:
            self._right(
                brush, room, 0, words("tui.overview.oldest", time=self._oldest(model, waiting))
            )
        self._label(
            *(brush, room, 1, "tui.overview.running", len(state.running)), row.get("max_num_seqs")
        )
        self._strip(brush, x, y + 1, right, state.running, ghost=False)
        preempted = state.totals["preemptions"]
        if preempted:
            key = "tui.overview.preempted" if self.is_boxed else "tui.overview.preempted_short"
            text = words(key, n=numbers.count(preempted))
            mark = f"{brush.glyphs.preempt} {text}"
            brush.canvas.put_right(room.right, y + 1, mark, brush.style("alarm", bold=True))
        self._paint_pool(brush, model, Area(x, y + 2, right - x, 1), room)

    def _label(
        self, brush: Brush, room: Area, line: int, key: str, n: int | None, of: int | None
    ) -> None:
        y = room.y + line
        brush.say(room.x, y, brush.words(key), "mute", width=LABEL)
        brush.number(room.x + LABEL + 2, y, numbers.count(n))
        if of is not None:
            brush.say(
                room.x + LABEL + 3, y, brush.words("tui.of", n=numbers.count(of)), "mute", width=7
            )

    def _right(self, brush: Brush, room: Area, line: int, text: str) -> None:
        brush.canvas.put_right(room.right, room.y + line, text, brush.style("mute"))

    def _strip(
        self, brush: Brush, x: int, y: int, right: int, request_ids: list[int], *, ghost: bool
    ) -> None:
        """One chip a request, as many as fit, then how many more."""
        gap = 1
        width = max(4, brush.chip_width(request_ids[:60]))
        fits = (right - x + gap) // (width + gap)
        if len(request_ids) > fits:
            fits = (right - x - 4) // (width + gap)
        for request_id in request_ids[:fits]:
            brush.chip(x, y, request_id, ghost=ghost, width=width)
            self.spot(Area(x, y, width, 1), f"screen.open_request({request_id})")
            x += width + gap
        if len(request_ids) > fits:
            brush.say(x, y, f"+{len(request_ids) - fits}", "mute")

    def _paint_pool(self, brush: Brush, model: Model, area: Area, room: Area) -> None:
        """Blocks in use, in the hues of those who hold them."""
        used, whole = model.blocks_in_use
        share = model.kv_share
        self._label(brush, room, 2, "tui.overview.blocks", used, None if used is None else whole)
        if used is None:
            return
        brush.canvas.put_right(
            room.right, room.y + 2, f"{numbers.percent(share):>3} %", brush.style("hi", bold=True)
        )
        if not model.state.has_blocks:
            brush.meter(area.x, area.y, share or 0.0, area.width)
            return
        draw_small_grid(brush, area, model)

    def _oldest(self, model: Model, waiting: list[int]) -> str:
        arrivals = [model.state.requests[r]["arrival_ns"] for r in waiting]
        return numbers.duration(max(0, self.desk.session.now_ns - min(arrivals))).strip()

    # -- rates and latencies ---------------------------------------------------------------------

    def _paint_rates(self, brush: Brush, model: Model, area: Area, num_rows: int) -> None:
        self.slowly(brush, "rates", area, lambda: self._draw_rates(brush, model, area, num_rows))

    def _draw_rates(self, brush: Brush, model: Model, area: Area, num_rows: int) -> None:
        words = brush.words
        note = words("tui.overview.last_seconds", n=WINDOW_SECONDS)
        room = self.panel(brush, area, words("tui.overview.rates"), note)
        if not model.timeline.upto(model.step, 1):
            self._not_recorded(brush, room, model)
            return
        rates = rates_at(model.timeline, model.step, self.desk.session.now_ns)
        names = RATES if num_rows == len(RATES) else ("prefill", "decode", "budget", "hit")
        for i, name in enumerate(names[: room.height]):
            self._paint_rate(brush, room, i, name, self._rate(name, rates, model), model)

    def _rate(self, name: str, rates: Rates, model: Model) -> tuple[str, str]:
        """A rate's number and unit."""
        row = model.state.step_row or {}
        per_s = "tok/s"
        match name:
            case "prefill":
                return _whole(rates.prefill_per_s), per_s
            case "decode":
                return _whole(rates.decode_per_s), per_s
            case "budget":
                return numbers.percent(rates.budget_share), "%"
            case "kv":
                return numbers.percent(model.kv_share), "%"
            case "hit":
                return numbers.percent(rates.hit_share), "%"
            case "waiting":
                return numbers.count(row.get("num_waiting")), ""
            case _:
                return numbers.count(model.state.totals["preemptions"]), self.desk.words(
                    "tui.total"
                )

    def _paint_rate(
        self, brush: Brush, room: Area, i: int, name: str, number: tuple[str, str], model: Model
    ) -> None:
        y, start = room.y + i, room.x + 12
        brush.say(room.x, y, brush.words(f"tui.overview.rate_{name}"), "mute", width=12)
        brush.number(start + 6, y, number[0])
        brush.say(start + 7, y, number[1], "mute", width=6)
        x = start + 14
        width = min(60, room.right - x)
        if width < 4:
            return
        columns = model.timeline.upto(model.step, width * 4)
        top = 1.0 if name in ("budget", "kv", "hit") else None
        fg = "alarm" if name == "preempted" else "series"
        values = buckets(columns, name, model.timeline.buckets)
        brush.spark(x, y, values, width, top=top, fg=fg)

    def _paint_latency(self, brush: Brush, model: Model, area: Area, *, with_queue: bool) -> None:
        def draw() -> None:
            self._draw_latency(brush, model, area, with_queue=with_queue)

        self.slowly(brush, "latency", area, draw)

    def _draw_latency(self, brush: Brush, model: Model, area: Area, *, with_queue: bool) -> None:
        words = brush.words
        room = self.panel(brush, area, words("tui.overview.latency"), words("tui.overview.so_far"))
        metrics = METRICS if with_queue else METRICS[1:]
        columns = [room.x + 14, room.x + 22, room.x + 30]
        has_picture = room.width >= 46
        for x, name in zip(columns, ("p50", "p95", "p99"), strict=True):
            brush.canvas.put_right(x, room.y, name, brush.style("mute"))
        if has_picture:
            brush.say(room.x + 33, room.y, words("tui.overview.last", n=40), "mute")
        for i, (name, metric) in enumerate(metrics[: room.height - 1]):
            y, found = room.y + 1 + i, model.figures.latency.get(metric, {})
            brush.say(room.x, y, words(f"tui.metric.{name}"), "mute", width=7)
            for x, percentile in zip(columns, ("p50", "p95", "p99"), strict=True):
                text = numbers.duration(found.get(percentile))
                brush.number(x, y, text, strong=percentile != "p95")
            if has_picture:
                samples = [float(value) for value in model.timeline.samples[name]]
                brush.spark(room.x + 33, y, samples, min(40, room.right - room.x - 33))

    # -- steps, why ------------------------------------------------------------------------------

    def _paint_steps(self, brush: Brush, model: Model, area: Area) -> None:
        words = brush.words
        note = words("tui.steps.legend")
        room = self.panel(brush, area, words("tui.steps.title"), note)
        columns = model.timeline.upto(model.step, room.width)
        if not columns:
            self._not_recorded(brush, room, model)
            return
        token_rows = 2 if room.height >= 9 else 1
        draw_steps(brush, room, columns, model.step, token_rows=token_rows)
        self.spot(room, "screen.open_step")

    def _paint_why(self, brush: Brush, model: Model, area: Area) -> None:
        self.slowly(brush, "why", area, lambda: self._draw_why(brush, model, area))

    def _draw_why(self, brush: Brush, model: Model, area: Area) -> None:
        words = brush.words
        room = self.panel(brush, area, words("tui.why.title"), words("tui.why.newest_first"))
        entries = folded(model.timeline.entries(model.step, room.height * 8))
        telling = [entry for entry in entries if entry.kind not in ("arrive", "first")]
        shown = telling[::-1][: room.height]
        chip_width = max(4, brush.chip_width([entry.request_id for entry in shown]))
        for i, entry in enumerate(shown):
            line = Area(room.x, room.y + i, room.width, 1)
            brush.entry(line, entry, self.say, chip_width=chip_width)
            if entry.request_id is not None:
                self.spot(line, f"screen.open_request({entry.request_id})")
        if not shown:
            self._not_recorded(brush, room, model)

    def _not_recorded(self, brush: Brush, room: Area, model: Model) -> None:
        text = why_none(model.state.level, Level.STEPS, "tui.no_steps", brush.words)
        brush.say(room.x, room.y, text, "mute", width=room.width)

    # -- 200 x 60 --------------------------------------------------------------------------------

    def _paint_wide(self, brush: Brush, model: Model, whole: Area) -> None:
        now = Area(0, 0, whole.width, 5)
        self.slowly(brush, "now", now, lambda: self._paint_now(brush, model, now))
        blocks_width = whole.width * 36 // 100
        left = whole.width - blocks_width
        rates_width = left // 2
        self._paint_rates(brush, model, Area(0, 5, rates_width, 9), 7)
        latency = Area(rates_width, 5, left - rates_width, 9)
        self._paint_latency(brush, model, latency, with_queue=True)
        self._paint_steps(brush, model, Area(0, 14, left, 13))
        grid = self.panel(
            brush, Area(left, 5, blocks_width, 22), brush.words("tui.blocks.title"), ""
        )
        draw_small_grid(brush, grid, model)
        bottom = whole.height - 27
        half = whole.width // 2
        lives = self.panel(
            *(brush, Area(0, 27, half, bottom), brush.words("tui.requests.title")),
            brush.words("tui.life.legend"),
        )
        draw_lives(brush, lives, model)
        self._paint_why(brush, model, Area(half, 27, whole.width - half, bottom))


def _whole(value: float | None) -> str:
    return numbers.NOTHING if value is None else numbers.count(round(value))
