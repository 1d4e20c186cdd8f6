"""How `cutaway trace show` lays out a run, a step, a request.

Numbers come from queries, reasons from the catalogue; nothing is explained here that was not recorded, and
what was not recorded is said.
"""

import shutil
import statistics
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tracing.errors import TraceError
from tracing.reader import Run
from tracing.record import Level
from tracing.runs import RunInfo

MAX_REQUESTS = 20
METRICS = {
    "ttft_ns": "time to first token",
    "itl_ns": "gap between tokens",
    "tpot_ns": "time per output token",
    "queue_ns": "waiting in the queue",
    "e2e_ns": "whole request",
}


@dataclass(frozen=True, slots=True)
class Page:
    """What is shown, of which run, where, in which language."""

    name: str
    typed: str
    """How the user named it, for commands to try next."""
    info: RunInfo
    run: Run
    console: Console
    lang: str

    def rows(self, query: str, **params: Any) -> list[dict[str, Any]]:
        """A named query's rows."""
        return self.run.query(query, **params).dicts()

    def heading(self, text: str) -> None:
        """A line that begins a part."""
        self.console.print()
        self.console.print(Text(text, style="bold"))

    def line(self, *parts: str) -> None:
        """One line of facts."""
        self.console.print(Text("  " + " · ".join(part for part in parts if part)), soft_wrap=True)

    def facts(self, rows: list[tuple[str, str, str]]) -> None:
        """Lines of (where, who, what)."""
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for style in ("dim", "bold", ""):
            table.add_column(style=style, no_wrap=style != "")
        for row in rows:
            table.add_row(*(Text("  " + row[0]), Text(row[1]), Text(row[2])))
        self.console.print(table)


def make_console() -> Console:
    """As wide as the terminal; piped, wide enough for the tables, and without colour."""
    return Console(width=shutil.get_terminal_size((120, 24)).columns, highlight=False)


def plain(value: Any) -> Text:
    """Anybody's text as text: no markup, and no control characters that would drive the terminal."""
    return Text("".join(c if c.isprintable() else "�" for c in str(value)))


def duration(ns: float | None) -> str:
    """Nanoseconds as a person says them; - if there are none."""
    if ns is None:
        return "-"
    for unit, size in (("min", 60e9), ("s", 1e9), ("ms", 1e6)):
        if abs(ns) >= size:
            return f"{ns / size:.3g} {unit}" if abs(ns) < 1000 * size else f"{ns / size:.0f} {unit}"
    return f"{ns / 1e3:.3g} us"


def show_run(page: Page) -> None:
    """Key numbers, latencies, requests, and the decisions that say most."""
    (total,) = page.rows("summary")
    page.console.print(Text(page.name, style="bold"), Text(page.info.state, style="dim"))
    page.line(
        f"{total['model'] or 'no engine described itself'}",
        f"{total['policy']} scheduler, {total['cache_kind']} cache" if total["policy"] else "",
        f"{total['num_blocks']} blocks of {total['block_size']} tokens"
        if total["num_blocks"]
        else "",
    )
    seconds = (total["duration_ns"] or 0) / 1e9
    rate = f"{total['output_tokens'] / seconds:.1f} tokens/s" if seconds else ""
    page.line(
        f"{duration(total['duration_ns'])}",
        f"{total['requests']} requests"
        + (f" ({total['open_requests']} open)" if total["open_requests"] else ""),
        f"{total['steps']} steps",
        f"{total['prompt_tokens']} prompt + {total['output_tokens']} output tokens",
        rate,
    )
    for use in page.rows("budget_use"):
        page.line(
            f"{use['mean_rows']:.1f} sequences a step",
            f"{use['share']:.1%} of the token budget used" if use["share"] is not None else "",
            f"{total['preemptions']} preemptions",
            f"{total['kernel_launches']} kernel launches",
        )
    for hit in page.rows("hit_rate"):
        what = "found again after preemption" if hit["resumed"] else "prefix hits"
        page.line(
            f"{what}: {hit['hit_tokens']} of {hit['queried_tokens']} tokens ({hit['rate']:.1%})"
        )
    if total["peak_blocks"] is not None and total["num_blocks"]:
        usable = total["num_blocks"] - 1  # block 0 is never given out
        peak = total["peak_blocks"]
        page.line(f"KV pool: at most {peak} of {usable} blocks in use ({peak / usable:.0%})")
    if total["lost_records"]:
        page.line(f"{total['lost_records']} records were lost: what follows is not complete")
    _show_latencies(page)
    _show_requests(page)
    told = page.rows("telling_decisions", n=5, lang=page.lang)
    if told:
        page.heading("Telling decisions")
        page.facts([(f"step {d['step']}", d["request"], d["sentence"]) for d in told])
        page.line(f"more: cutaway trace show {page.typed} --step {told[0]['step']}")


def _show_latencies(page: Page) -> None:
    found = {row["metric"]: row for row in page.rows("latency_percentiles")}
    if not found:
        return
    page.heading("Latency")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("  ")
    for name in ("n", "mean", "p50", "p95", "p99", "max"):
        table.add_column(name, justify="right")
    for metric, name in METRICS.items():
        if metric in found:
            row = found[metric]
            tails = (
                duration(row[p]) if row[p] is not None else "n too small" for p in ("p95", "p99")
            )
            values = (duration(row["mean"]), duration(row["p50"]), *tails, duration(row["max"]))
            table.add_row("  " + name, str(row["n"]), *values)
    page.console.print(table)


def _show_requests(page: Page) -> None:
    requests = page.rows("requests", lang=page.lang)
    if not requests:
        return
    page.heading("Requests")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("  ")
    for name in ("prompt", "cached", "output", "preempted", "queue", "first token", "whole"):
        table.add_column(name, justify="right")
    table.add_column("end")
    for r in requests[:MAX_REQUESTS]:
        names = ("num_prompt_tokens", "num_cached_tokens", "num_output_tokens", "num_preemptions")
        counts = ("-" if r[name] is None else str(r[name]) for name in names)
        times = (duration(r[name]) for name in ("queue_ns", "ttft_ns", "e2e_ns"))
        table.add_row("  " + r["request"], *counts, *times, Text(r["ended_by"] or "still open"))
    page.console.print(table)
    if len(requests) > MAX_REQUESTS:
        page.line(f"and {len(requests) - MAX_REQUESTS} more")


def show_step(page: Page, number: int, engine: int | None) -> None:
    """One step: who was in it and why, what was decided, and what happened to blocks."""
    (total,) = page.rows("summary")
    if total["first_engine"] is None:
        raise TraceError("this run recorded no steps: that takes level 2 or above")
    engine = total["first_engine"] if engine is None else engine
    found = page.run.sql(f"FROM step WHERE engine_id = {engine} AND step = {number}").dicts()
    if not found:
        first, last = total["first_step"], total["last_step"]
        raise TraceError(
            f"engine {engine} has no step {number}; steps {first} to {last} are recorded"
        )
    step = found[0]
    page.console.print(Text(f"{page.name}, step {number}", style="bold"))
    if step["end_ns"] is None:
        page.line("interrupted: it began and never ended")
        return
    page.line(
        f"{step['mode']}",
        f"{duration(step['end_ns'] - step['start_ns'])}",
        f"{duration(step['scheduled_ns'] - step['start_ns'])} of it planning",
        f"{step['num_tokens']} of {step['token_budget']} tokens",
    )
    page.line(
        f"after it {step['num_running']} run, {step['num_waiting']} wait",
        f"blocks: {step['used_blocks']} used, {step['cached_free_blocks']} cached, "
        f"{step['free_blocks']} free",
    )
    page.heading("Rows")
    rows = page.rows("step_rows", engine=engine, step=number, lang=page.lang)
    page.facts([(_tokens(r["num_scheduled_tokens"]), r["request"], r["reason"]) for r in rows])
    decisions = page.rows("decisions", engine=engine, a=number, b=number, lang=page.lang)
    if decisions:
        page.heading("Decisions")
        who = ("" if d["request_id"] is None else d["request"] for d in decisions)
        page.facts([(d["kind"], w, d["sentence"]) for d, w in zip(decisions, who, strict=True)])
    page.heading("Blocks")
    if step["level"] < Level.BLOCKS:
        page.line(f"not recorded at level {step['level']}")
    acts = page.rows("step_blocks", engine=engine, step=number, lang=page.lang)
    page.facts(
        [(_range(a["first_block"], a["last_block"]), a["request"], a["sentence"]) for a in acts]
    )


def find_request(page: Page, name: str) -> dict[str, Any]:
    """A request's row of query `requests`, by the name that lists give it. Raises TraceError."""
    labels = {f"#{name.removeprefix('#')}", name}
    found = [
        r
        for r in page.rows("requests", lang=page.lang)
        if labels & {r["request"], str(r["request_id"])}
    ]
    if not found:
        raise TraceError(f"no request {name!r}; `cutaway trace show {page.typed}` lists them")
    return found[0]


def show_request(page: Page, name: str) -> None:
    """One request, named as the lists do: its phases, its tokens, and why, all through its life."""
    r = find_request(page, name)
    request_id = r["request_id"]
    page.console.print(Text(f"{page.name}, request {r['request']}", style="bold"))
    if r["external_id"]:
        page.console.print(Text("  the client calls it"), plain(r["external_id"]))
    page.line(
        f"{r['num_prompt_tokens']} prompt tokens",
        f"{r['num_cached_tokens']} of them cached" if r["num_cached_tokens"] is not None else "",
        f"{r['num_output_tokens']} output tokens" if r["num_output_tokens"] is not None else "",
        f"{r['num_preemptions']} preemptions" if r["num_preemptions"] else "",
        r["ended_by"] or "still open",
    )
    phases = page.rows("request_phases", request=request_id)
    if phases:
        page.heading("Phases")
        steps = (_range(p["first_step"], p["last_step"]) for p in phases)
        page.facts(
            [
                (duration(p["dur_ns"]), p["phase"], s and f"{'steps' if '-' in s else 'step'} {s}")
                for p, s in zip(phases, steps, strict=True)
            ]
        )
    tokens = page.rows("request_tokens", request=request_id)
    gaps = [t["gap_ns"] for t in tokens if t["gap_ns"] is not None]
    if gaps:
        page.heading("Tokens")
        slowest = max(tokens, key=lambda t: t["gap_ns"] or 0)
        page.line(
            _tokens(len(tokens)),
            f"median gap {duration(statistics.median(gaps))}",
            f"longest {duration(slowest['gap_ns'])}, before token {slowest['k']}"
            + (f" (step {slowest['step']})" if slowest["step"] is not None else ""),
        )
    page.heading("Why")
    story = page.rows("request_story", request=request_id, lang=page.lang)
    page.facts([(f"step {s['step']}", s["name"].lower(), s["sentence"]) for s in story])
    if not story:
        page.line("no decisions were recorded: that takes level 2 or above")


def _tokens(number: int) -> str:
    return "1 token" if number == 1 else f"{number} tokens"


def _range(first: int | None, last: int | None) -> str:
    if first is None:
        return ""
    return str(first) if last in (None, first) else f"{first}-{last}"
