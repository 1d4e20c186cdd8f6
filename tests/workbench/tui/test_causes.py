"""Why a token was late, when somebody held the engine still."""

from pathlib import Path

import pytest

from engine.messages import Steer
from tests.tracing.conftest import RunFolder
from tests.workbench.toy_run import make_toy_run
from tracing.reader import open_run
from workbench.look.words import Words
from workbench.tui.causes import gap_entry, gaps

HOLD_NS = 9_500_000_000


@pytest.mark.parametrize("verb", ["pause", "break"])
def test_a_wait_for_a_held_engine_is_called_one(tmp_path: Path, verb: str) -> None:
    folder = RunFolder(tmp_path / "held")
    toy = make_toy_run(folder.recorder("core"), folder.recorder("api"), seed=3, num_blocks=49)
    toy.run(12, load=(1,))
    control = toy.core.control
    control.act(Steer(verb, "free < 49"))
    toy.turn()  # paused it plans nothing; at the breakpoint it plans, and holds
    toy.clock.now += HOLD_NS
    held_step = control.act(Steer("resume")).next_step
    toy.drain()
    with folder.finished_store() as store:
        summary = store.query("summary").dicts()[0]
    folder.info.sealed(summary).save(folder.path)
    run = open_run(folder.path)
    try:
        waited = run.sql(
            f"SELECT DISTINCT request_id FROM token WHERE gap_ns > {HOLD_NS} ORDER BY 1"
        ).rows
        assert waited
        for (who,) in waited:
            (row,) = [row for row in gaps(run, who) if row["gap_ns"] > HOLD_NS]
            assert row["step"] == held_step
            assert row["slow_ns"] < HOLD_NS, "the step itself was not long"
            line = gap_entry(row, who, Words("en")).text or ""
            assert f"held still for 9.50 s before step {held_step}" in line
        (steps,) = run.sql("SELECT max(end_ns - start_ns) FROM step").rows
        assert steps[0] < HOLD_NS
    finally:
        run.close()
