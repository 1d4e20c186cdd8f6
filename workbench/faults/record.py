"""Record the runs of the fault drills: `python -m workbench.faults.record [FOLDER]`.

    FOLDER/office                       nothing is wrong: for drills about moments of a run
    FOLDER/faults/amber, birch, ...     three engines with one fault each and one without, on the same load

FOLDER is `traces` by default, from the root of a checkout. The names say nothing, for the folder is what the
learner is given; what is wrong in each is written here and nowhere else: the drills compute it.
"""

import sys
import tempfile
from pathlib import Path

import torch

import tracing
from engine import LLM
from tracing.parquet import export_run
from tracing.record import Level
from workbench.faults.inject import Fault, inject
from workbench.faults.load import ENGINE, make_load, play

RUNS: dict[str, Fault | None] = {
    "office": None,
    "faults/amber": "starved",
    "faults/birch": None,
    "faults/cedar": "off-by-one",
    "faults/delta": "salt",
}
HOME = Path("traces")


def record(folder: Path, fault: Fault | None, model: str = "smollm2-135m") -> None:
    """Record one run as Parquet files into a new folder. Raises TraceError, ModelError or ConfigError."""
    torch.set_num_threads(1)  # steps of even length, whatever else the machine does
    with tempfile.TemporaryDirectory() as scratch:
        run_dir = Path(scratch) / "run"
        with (
            tracing.start(run_dir, level=Level.BLOCKS, record_tokens=True) as trace,
            LLM(model, trace=trace, **ENGINE) as llm,
        ):
            if fault is not None:
                inject(llm, fault)
            play(llm, make_load())
        export_run(run_dir, folder)


def main() -> None:
    """Record all of them."""
    home = Path(sys.argv[1]) if len(sys.argv) > 1 else HOME
    for name, fault in RUNS.items():
        record(home / name, fault)
        size = sum(file.stat().st_size for file in (home / name).iterdir())
        print(f"{home / name}: {size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
