"""Rates: over the last seconds, so that a pause is neither averaged away nor hidden."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.workbench.tui.conftest import STEP, drive, top
from tracing.reader import open_run
from workbench.replay_facts import StepFacts
from workbench.tui.command import top as command
from workbench.tui.mode import Mode
from workbench.tui.rates import WINDOW_SECONDS, buckets, rates_at
from workbench.tui.session import Session
from workbench.tui.source import find_source
from workbench.tui.timeline import Timeline

MS, SECOND = 1_000_000, 1_000_000_000
START_NS = 1_000_000 * SECOND


def add(timeline: Timeline, step: int, start_ns: int, end_ns: int) -> None:
    """A step that decodes for three."""
    row: dict[str, Any] = {"step": step, "start_ns": start_ns, "end_ns": end_ns, "mode": "decode"}
    names = ("prefill_tokens", "draft_tokens", "preempted", "waiting")
    row |= {f"num_{name}": 0 for name in names} | {"num_tokens": 3, "token_budget": 30}
    row |= {"used_blocks": 1, "cached_free_blocks": 1, "free_blocks": 2}
    timeline.add(StepFacts(step, row), {})


def after_a_pause() -> tuple[Timeline, int]:
    """240 steps, a minute of nothing, ten steps of 50 ms; and when the last one ended."""
    timeline, now = Timeline(), START_NS
    for step in range(250):
        now += 60 * SECOND if step == 240 else 0
        add(timeline, step, now, now + 50 * MS)
        now += 50 * MS
    return timeline, now


def test_a_new_load_is_as_fast_as_it_is() -> None:
    timeline, now = after_a_pause()
    rates = rates_at(timeline, 249, now)
    assert rates.steps_per_s == pytest.approx(20)
    assert rates.decode_per_s == pytest.approx(60)
    assert rates.budget_share == pytest.approx(0.1)


def test_an_idle_engine_falls_to_nothing() -> None:
    timeline, now = after_a_pause()
    seen = [rates_at(timeline, 249, now + s * SECOND).steps_per_s or 0.0 for s in range(12)]
    assert seen == sorted(seen, reverse=True)
    assert seen[1] == pytest.approx(10 / 1.5)
    assert seen[-1] == 0
    assert rates_at(timeline, 249, now + 60 * SECOND).decode_per_s == 0
    assert rates_at(Timeline(), -1, now).steps_per_s is None, "nothing is known"


def test_a_bar_of_a_sparkline_does_not_count_a_pause() -> None:
    timeline = Timeline()
    for step, start in enumerate((0, 50 * MS, 30 * SECOND, 30 * SECOND + 40 * MS)):
        add(timeline, step, START_NS + start, START_NS + start + 50 * MS)  # the last two overlap
    (rate,) = buckets(timeline.upto(3, 4), "decode", {})
    assert rate == pytest.approx(12 / 0.19)


def test_screen_and_scripts_say_what_the_query_says(run_dir: Path) -> None:
    run = open_run(run_dir)
    ends = dict(run.sql("SELECT step, end_ns FROM step ORDER BY step").rows)
    since = ends[STEP] - WINDOW_SECONDS * SECOND
    first = min(step for step, end_ns in ends.items() if end_ns > since)
    (asked,) = run.query("rates_between", engine=0, a=first, b=STEP).dicts()
    run.close()
    result = CliRunner().invoke(command, [str(run_dir), "--json", "--step", str(STEP)])
    said = json.loads(result.output)["rates"]
    assert said["seconds"] == WINDOW_SECONDS
    for name, value in asked.items():
        if name != "num_steps":
            assert said[name] == pytest.approx(value), name

    async def main() -> None:
        async with top(run_dir, (120, 36)) as t:
            assert f"last {WINDOW_SECONDS} s" in t.text
            assert f"{said['decode_per_s']:.0f} tok/s" in t.text

    drive(main)


def test_what_slows_down_is_drawn_though_nothing_comes(run_dir: Path) -> None:
    drawn: list[float] = []
    session = Session(find_source(str(run_dir)), lambda: drawn.append(time.monotonic()))
    session.mode = Mode.LIVE
    for ago, times in ((5.0, 1), (WINDOW_SECONDS + 5.0, 0)):
        drawn.clear()
        session.moved_at, session._aged_at = time.monotonic() - ago, 0.0
        for _ in range(3):
            session.tick(0.1)
        assert len(drawn) == times, "once a second, until the rates are 0"
