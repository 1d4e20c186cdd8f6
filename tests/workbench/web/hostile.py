"""A run that tries to get code into the page: by a client's id, the model's name, the run's own name."""

from pathlib import Path

import tracing
from tests.tracing.conftest import RunFolder
from tests.tracing.sim import Sim
from tracing.record import NULL, Code

SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>"
NAME = "evil-\"'><b>&amp;"
"""A folder may be called anything but a path."""
REQUEST = (1 << 32) + 7


def record_hostile_run(runs: Path) -> None:
    """Twenty steps; everything that a client or a user can name, named badly."""
    folder = RunFolder(runs / NAME)
    api, core = folder.recorder("api"), folder.recorder()
    core.describe_run(
        policy=SCRIPT, cache_kind="hash", block_size=4, num_blocks=24, model=SCRIPT, config={}
    )
    sim = Sim(core, seed=5)
    fields = (REQUEST, NULL, 1, 2, 3, NULL, sim.now, 1, 12, 8, 0, 0, 700_000, 900_000, 5, NULL)
    api.request(fields, external_id=SCRIPT, operation="chat")
    sim.tables.clear()
    for step in range(20):
        core.begin_step(step, sim.now)
        if step == 4:
            core.decision(Code.PREEMPT_LAST, REQUEST, 3, 12, 2, 0, other=REQUEST + 1)
        sim.run_step()
    end = (REQUEST, sim.now, Code.END_LENGTH, 200, 3, 4, 0, 1, NULL, NULL, NULL, NULL, 3)
    api.request_end(end)
    folder.close_writers()
    tracing.open_run(folder.path).close()
