"""`--once` and `--json`: the engine in a few lines for scripts, or as one object with the same names.

No escape codes, at most 80 columns. Every number is one that the screens show too.
"""

import json
import time
from collections import Counter
from typing import Any

import click
from rich.cells import cell_len, set_cell_size

from tracing.record import Level
from workbench.look.palette import label_of
from workbench.look.words import Words
from workbench.tui import numbers
from workbench.tui.canvas import pad
from workbench.tui.log import say
from workbench.tui.model import Model, load, why_none
from workbench.tui.rates import WINDOW_SECONDS, rates_at
from workbench.tui.source import Source

WIDTH = 80
HEAD_WIDTH = 11
METRICS = (("TTFT", "ttft_ns"), ("ITL", "itl_ns"), ("E2E", "e2e_ns"))


def print_once(source: Source, *, step: int | None, as_json: bool, lang: str) -> None:
    """Read the run at a step, or as it is now, and print it. Raises TraceError."""
    run = source.open()
    try:
        model = load(run, source.title, source.created_ns, step)
        words = Words(lang)
        is_now = source.is_live and step is None
        said = summarise(model, source, words, time.time_ns() if is_now else model.now_ns)
    finally:
        run.close()
    text = json.dumps(said, ensure_ascii=False, indent=1) if as_json else as_text(said, words)
    click.echo(text)


def summarise(model: Model, source: Source, words: Words, now_ns: int) -> dict[str, Any]:
    """What is printed, as plain values. Times in ns, shares from 0 to 1; null: not known."""
    state, row = model.state, model.state.step_row or {}
    rates = rates_at(model.timeline, model.step, now_ns)
    waiting = state.waiting
    arrivals = [state.requests[who]["arrival_ns"] for who in waiting]
    telling = [e for e in model.timeline.entries(model.step, 2000) if e.kind in ("preempt", "skip")]
    last = telling[-1] if telling else None
    latency = {
        name: {p: model.figures.latency.get(metric, {}).get(p) for p in ("p50", "p95", "p99", "n")}
        for name, metric in METRICS
    }
    return {
        "run": source.title,
        "live": source.is_live,
        "policy": state.run.get("policy"),
        "level": state.level,
        "step": None if model.step < 0 else model.step,
        "last_step": None if model.last_step < 0 else model.last_step,
        "time_ns": model.now_ns - model.created_ns if model.now_ns else None,
        "requests": {
            "running": len(state.running),
            "max": row.get("max_num_seqs"),
            "waiting": len(waiting),
            "oldest_ns": max(0, now_ns - min(arrivals)) if arrivals else None,
            "preempted": state.totals["preemptions"],
            "done": state.totals["ended"],
        },
        "blocks": _blocks(model),
        "rates": {
            "seconds": WINDOW_SECONDS,
            "steps_per_s": rates.steps_per_s,
            "prefill_per_s": rates.prefill_per_s,
            "decode_per_s": rates.decode_per_s,
            "budget_share": rates.budget_share,
            "hit_share": rates.hit_share,
        },
        "latency_ns": latency,
        "why": None
        if last is None
        else {
            "step": last.step,
            "kind": last.kind,
            "request": None if last.request_id is None else label_of(last.request_id),
            "sentence": say(last, model.reasons, words, model.facts),
        },
    }


def _blocks(model: Model) -> dict[str, int | None]:
    """The pool after the step; where its blocks are not recorded, as the step's own row has it."""
    row, names = model.state.step_row or {}, ("used", "cached", "free")
    if model.state.has_blocks and row:
        found = Counter(block.state for block in model.state.blocks.values())
        used, cached, free = (found[name] for name in names)
        return {"used": used, "cached_free": cached, "free": free}
    keys = {"used": "used_blocks", "cached_free": "cached_free_blocks", "free": "free_blocks"}
    return {name: row.get(key) for name, key in keys.items()}


def as_text(said: dict[str, Any], words: Words) -> str:
    """The summary in lines."""
    requests, blocks, rates = said["requests"], said["blocks"], said["rates"]

    def w(key: str, **values: Any) -> str:
        return words(f"tui.once.{key}", **values)

    if said["step"] is not None:
        where = w("of", step=said["step"], last=said["last_step"])
    else:
        where = why_none(said["level"], Level.STEPS, "tui.no_steps", words)
    if said["time_ns"] is not None:
        where += "  " + w("time", s=f"{said['time_ns'] / 1e9:.2f}")
    oldest = numbers.duration(requests["oldest_ns"]).strip()
    lines = [
        f"cutaway  {w('run')} {said['run']}  {w('policy')} {said['policy'] or numbers.NOTHING}  {where}",
        _head(w("requests"))
        + f"{w('running')} {requests['running']}/{requests['max'] or numbers.NOTHING}"
        f"  {w('waiting')} {requests['waiting']}  {w('oldest')} {oldest}"
        f"  {w('preempted')} {requests['preempted']}",
    ]
    if blocks["used"] is not None:
        whole = blocks["used"] + blocks["cached_free"] + blocks["free"]
        lines.append(
            _head(w("blocks"))
            + f"{w('in_use')} {blocks['used']}/{whole}  {w('cached')} {blocks['cached_free']}"
        )
    lines.append(
        _head(w("tokens"))
        + f"{w('prefill')} {_whole(rates['prefill_per_s'])}  {w('decode')} {_whole(rates['decode_per_s'])}"
        f"  {w('budget')} {numbers.percent(rates['budget_share'])} %"
        f"  {w('hit')} {numbers.percent(rates['hit_share'])} %"
    )
    lines.append(_head(w("latency")) + f"{'p50':>8}{'p95':>8}{'p99':>8}{'n':>8}")
    for name, found in said["latency_ns"].items():
        times = "".join(f"{numbers.duration(found[p]):>8}" for p in ("p50", "p95", "p99"))
        lines.append(f"  {name:<9}{times}{found['n'] or 0:>8}")
    if said["why"] is not None:
        why = said["why"]
        about = f"{why['step']} {words('common.' + why['kind'])}"
        about += "" if why["request"] is None else f" {why['request']}"
        lines.append(_head(w("why")) + f"{about}: {why['sentence']}")
    return "\n".join(_cut(line) for line in lines)


def _head(text: str) -> str:
    """What a line is about, in a column."""
    return pad(text, HEAD_WIDTH)


def _cut(line: str) -> str:
    return line if cell_len(line) <= WIDTH else set_cell_size(line, WIDTH - 1).rstrip() + "…"


def _whole(value: float | None) -> str:
    return numbers.NOTHING if value is None else f"{value:,.0f}"
