"""Which runs are asked about: the one that was named, else the sample that comes with a checkout.

    traces/office        a run in which nothing is wrong: trace drills
    traces/faults/NAME   runs of engines that may have a fault: fault drills

Source: none.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracing import open_run
from tracing.reader import Run
from tracing.runs import RUN_FILE, find_run

TRACES = Path(__file__).parents[2] / "traces"
"""Of the checkout that this file lies in; an installed package has none."""
SAMPLE = "office"


def has_sample() -> bool:
    """Whether trace drills can be asked without naming a run."""
    return (TRACES / SAMPLE / RUN_FILE).exists()


def fault_runs() -> tuple[str, ...]:
    """Names of the runs to find a fault in."""
    return tuple(sorted(path.parent.name for path in (TRACES / "faults").glob(f"*/{RUN_FILE}")))


@contextmanager
def opened(run: str | None) -> Iterator[tuple[str, Run]]:
    """A run and the name that commands know it by; None: the sample. Raises TraceError."""
    folder = TRACES / SAMPLE if run is None else find_run(run)
    name = shown_path(folder) if run is None else run
    if run == "last":
        name = folder.name  # the last one now may not be the last one later
    asked = open_run(folder)
    try:
        yield name, asked
    finally:
        asked.close()


def shown_path(folder: Path) -> str:
    """A folder as a command takes it, short if it lies below the current one."""
    relative = os.path.relpath(folder)
    return str(folder) if relative.startswith("..") else relative
