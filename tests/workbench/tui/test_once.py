"""`--once`, `--json`, and what is said where something was not recorded."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from engine.messages import Steer
from tests.tracing.conftest import RunFolder
from tests.workbench.toy_run import make_toy_run
from tests.workbench.tui.conftest import drive, top
from tracing.reader import open_run
from tracing.record import Level
from workbench.look.words import Words
from workbench.tui.command import top as command
from workbench.tui.model import load
from workbench.tui.once import as_text, summarise
from workbench.tui.source import find_source


def told(run_dir: Path, step: int) -> tuple[dict[str, Any], str]:
    """As an object, and in lines."""
    run = open_run(run_dir)
    model = load(run, "run", 0, step)
    source = find_source(str(run_dir))
    assert source is not None
    said = summarise(model, source, Words("en"), model.now_ns)
    run.close()
    return said, as_text(said, Words("en"))


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """A run that ends where a planned step was held: its blocks are given out, and it has no row yet."""
    folder = RunFolder(tmp_path / "held")
    toy = make_toy_run(folder.recorder("core"), folder.recorder("api"), seed=3)
    toy.run(12)
    toy.drain()
    toy.core.control.act(Steer("break", "free < 9999"))
    toy.arrive()
    toy.turn()
    assert toy.core.control.is_stopped
    toy.core.recorder.flush()
    seal(folder)
    return folder.path


def seal(folder: RunFolder) -> None:
    with folder.finished_store() as store:
        summary = store.query("summary").dicts()[0]
    folder.info.sealed(summary).save(folder.path)


def test_blocks_are_the_pools(held: Path) -> None:
    run = open_run(held)
    model = load(run, "run", 0, None)
    run.close()
    row, states = model.state.step_row, Counter(b.state for b in model.state.blocks.values())
    assert row is not None
    assert row["used_blocks"] < states["used"]
    said = json.loads(CliRunner().invoke(command, [str(held), "--json"]).output)["blocks"]
    names = {"used": "used", "cached_free": "cached", "free": "free"}
    assert said == {name: states[state] for name, state in names.items()}
    text = CliRunner().invoke(command, [str(held), "--once"]).output
    assert f"in use {states['used']}/23" in text
    share = f"{states['used'] / 23 * 100:.0f} %"

    async def main() -> None:
        async with top(held, (120, 36), step=10_000) as t:
            (line,) = (line for line in t.text.splitlines() if "KV in use" in line)
            assert share in " ".join(line.split())
            await t.pilot.resize_terminal(60, 10)
            await t.settle()
            assert f"KV {share}" in t.text

    drive(main)


def test_a_reason_about_nobody_names_nobody(run_dir: Path) -> None:
    run = open_run(run_dir)
    ((step,),) = run.sql(
        "SELECT max(step) FROM decision JOIN reason USING (code) "
        "WHERE kind = 'stop' AND request_id IS NULL"
    ).rows
    run.close()
    said, text = told(run_dir, step)
    assert said["why"]["step"] == step
    assert said["why"]["request"] is None
    assert "?" not in text


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A run at level metrics: neither requests nor steps."""
    folder = RunFolder(tmp_path / "bare")
    front = folder.recorder("api", level=Level.METRICS)
    toy = make_toy_run(folder.recorder("core", level=Level.METRICS), front)
    toy.run(20)
    toy.drain()
    seal(folder)
    return folder.path


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_is_not_recorded_is_not_awaited(bare: Path, lang: str) -> None:
    missing = Words(lang)("tui.not_recorded", level=0)
    yet = [Words(lang)(key) for key in ("tui.no_steps", "tui.request.none")]

    async def main() -> None:
        async with top(bare, step=0, lang=lang) as t:
            for key in "123456":
                await t.press(key)
                assert missing in t.text, (key, t.text)
                assert not any(text in t.text for text in yet), t.text
                assert "-1" not in "\n".join(t.header)

    drive(main)
    result = CliRunner().invoke(command, [str(bare), "--once", "--lang", lang])
    assert missing in result.output
    assert "-1" not in result.output
    said = json.loads(CliRunner().invoke(command, [str(bare), "--json"]).output)
    assert (said["level"], said["step"], said["last_step"]) == (0, None, None)
