"""How fast the browser workbench answers on a large run: each interaction, and frames while playing.

    python -m workbench.bench.scripted_run traces/runs/large --requests 4000 --launches 60      1.2 M spans
    python -m workbench.bench.web_speed traces/runs/large

Chromium renders in software, as on a machine without a GPU. An interaction is timed in the page, from the
input to the animation frame in which the new picture stands, rows and block map included. A jump is timed
twice: until the cursor and the coarse level of the new place are drawn, and until every row and block of it
is there; chunks are dropped before it, so it has to ask the server. Frames are counted over three seconds of
playing.

Invariant: what is timed is what a user waits for, not what a function takes.
"""

import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, Popen

import click
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
SPEEDS = (1, 10, 100)
PLAY_MS = 3_000

# Set something, then wait for the frame in which the picture of that step stands.
JUMP = """async (n) => {
  const page = window.cutaway.get(), { run, state, go } = page;
  run.chunks.clear(); run.steps.clear();
  const { drawn } = page;
  const began = performance.now();
  let first = null;
  go.step(n, { keep: false });
  for (;;) {
    await new Promise(requestAnimationFrame);
    const { scale } = page.timeline;
    const isThere = state.get('step') === n && scale.a <= n && n <= scale.b && page.drawn > drawn;
    if (isThere) first ??= performance.now() - began;
    let here = page.map.shown === n && state.get('step') === n;
    for (let s = scale.a; here && !scale.isWide && s <= scale.b; s += 1) here = Boolean(run.step(s)?.done);
    if (here) return [first, performance.now() - began];
  }
}"""
STEP = """async () => {
  const page = window.cutaway.get(), began = performance.now(), n = page.state.get('step') + 1;
  page.go.step(n);
  for (;;) {
    await new Promise(requestAnimationFrame);
    if (page.map.shown === n) return performance.now() - began;
  }
}"""
ZOOM = """async (factor) => {
  const page = window.cutaway.get(), began = performance.now();
  page.go.zoom(factor);
  for (;;) {
    await new Promise(requestAnimationFrame);
    const { scale, run } = page.timeline;
    let here = page.state.get('b') === scale.b && page.state.get('a') === scale.a;
    for (let s = scale.a; here && !scale.isWide && s <= scale.b; s += 1) here = Boolean(run.step(s)?.done);
    if (here) return performance.now() - began;
  }
}"""
CARD = """async (kind) => {
  const page = window.cutaway.get(), { state, run } = page, why = document.getElementById('why');
  const frame = () => new Promise(requestAnimationFrame), step = run.step(state.get('step'));
  state.set({ card: null });
  while (why.querySelector('section')) await frame();
  const began = performance.now();
  state.set({ card: { view: 'lives', kind, step: step.step, request: step.rows[0].id } });
  while (!why.querySelector('section')) await frame();
  return performance.now() - began;
}"""
EVENT = """async (kind) => {
  const page = window.cutaway.get(), began = performance.now();
  const event = await page.go.event(kind, false);
  for (;;) {
    await new Promise(requestAnimationFrame);
    if (page.map.shown === event.step) return performance.now() - began;
  }
}"""
PLAY = """async ([speed, ms]) => {
  const page = window.cutaway.get(), { state } = page;
  const gaps = [], from = state.get('step');
  state.set({ speed, playing: true });
  let before = performance.now();
  const end = before + ms;
  while (before < end) {
    await new Promise(requestAnimationFrame);
    const now = performance.now(); gaps.push(now - before); before = now;
  }
  state.set({ playing: false });
  gaps.sort((a, b) => a - b);
  return [gaps.length / (ms / 1000), gaps[Math.floor(gaps.length * 0.95)], state.get('step') - from];
}"""


def measure(page: Page, rounds: int, last: int) -> list[tuple[str, list[float]]]:
    """Milliseconds of each interaction, over rounds at places all over the run."""
    places = [last * (2 * i + 1) // (2 * rounds) for i in range(rounds)]
    timed: list[tuple[str, list[float]]] = []

    def add(name: str, act: Callable[[int], float]) -> None:
        timed.append((name, [act(place) for place in places]))

    def jump(name: str) -> None:
        both = [page.evaluate(JUMP, place) for place in places]
        timed.append((f"{name}: its place", [first for first, _ in both]))
        timed.append((f"{name}: every row", [whole for _, whole in both]))

    jump("jump to a step never seen")
    add("one step", lambda _: page.evaluate(STEP))
    add("why card", lambda n: page.evaluate(CARD, "row" if n % 2 else "gap"))
    for kind in ("preemption", "eviction", "first_token"):
        add(f"next {kind.replace('_', ' ')}", lambda _, kind=kind: page.evaluate(EVENT, kind))  # type: ignore[misc]
    add("zoom out, to thousands of steps", lambda _: page.evaluate(ZOOM, 2.0))
    jump("jump in a window of thousands")
    add("zoom in", lambda _: page.evaluate(ZOOM, 0.5))
    return timed


@click.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.option("--rounds", default=8, show_default=True)
def main(run: Path, rounds: int) -> None:
    """Time the workbench on RUN."""
    server = Popen(
        [sys.executable, "-m", "workbench.cli", "web", str(run), "--port", "0"],
        stdout=PIPE,
        text=True,
    )
    assert server.stdout is not None
    url = server.stdout.readline().split()[-1]
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(url)
            # Not by wait_for_function: the page's policy forbids it to evaluate texts.
            while page.evaluate("window.cutaway?.report()?.shown ?? null") is None:
                page.wait_for_timeout(100)
            last = page.evaluate("window.cutaway.report().last")
            timed = measure(page, rounds, last)
            page.evaluate(JUMP, last // 4)
            _print(timed, [(s, page.evaluate(PLAY, [s, PLAY_MS])) for s in SPEEDS])
            browser.close()
    finally:
        server.terminate()
        server.wait()


def _print(timed: list[tuple[str, list[float]]], played: list[tuple[int, list[float]]]) -> None:
    console = Console()
    load = "  ".join(f"{value:.1f}" for value in os.getloadavg())
    console.print(f"load average of {os.cpu_count()} cores: {load}")
    table = Table("interaction", "p50 ms", "p95 ms", "worst ms", box=None)
    for name, values in timed:
        p95 = statistics.quantiles(values, n=20, method="inclusive")[-1]
        middle = statistics.median(values)
        table.add_row(name, f"{middle:.0f}", f"{p95:.0f}", f"{max(values):.0f}")
    console.print(table)
    table = Table("playing at", "frames/s", "95 % of frames within ms", "steps", box=None)
    for speed, (rate, slow, steps) in played:
        table.add_row(f"{speed}x", f"{rate:.0f}", f"{slow:.0f}", f"{steps:.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
