"""A run is a folder, and `run.json` in it says what it is and whether it is still being recorded.

    run.json              this file's `RunInfo`: identity, clock, state
    <proc>-<n>.spool      what each process wrote (`tracing.spool`)
    trace.duckdb          the tables made of it (`tracing.store`), or one <table>.parquet each
    recorder.json         while a recorder serves the run: its URL and process id
    recorder.lock         held by whoever fills the tables
    recorder.log          what the recorder had to complain about; usually empty

Invariant: state `sealed` is written last, after every table is complete and closed. A run that says
`recording` while nobody records it was interrupted; `tracing.reader` finishes it at the next look.
Place in the step: none; this is about files at rest.
"""

import fcntl
import json
import os
import secrets
import time
import tomllib
import uuid
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from tracing.errors import TraceError

FORMAT = 1
RUN_FILE = "run.json"
RECORDER_FILE = "recorder.json"
LOCK_FILE = "recorder.lock"
STORE_FILE = "trace.duckdb"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """The contents of run.json."""

    run_id: str
    """UUID; the folder's name is for people."""
    created_ns: int
    """Unix epoch: zero of the run's time axis."""
    epoch_offset_ns: int
    """The run's clock: epoch = monotonic + this, read once at the start. All processes of a host share it."""
    tokens_recorded: bool
    state: Literal["recording", "sealed"] = "recording"
    store: Literal["duckdb", "parquet"] = "duckdb"
    format: int = FORMAT
    summary: dict[str, Any] = field(default_factory=dict)
    """The query `summary`, taken when the run was sealed, so that a list of runs opens no store."""

    @classmethod
    def new(cls, *, tokens_recorded: bool) -> "RunInfo":
        """A run that starts now."""
        monotonic_ns, wall_ns = time.perf_counter_ns(), time.time_ns()
        return cls(
            run_id=str(uuid.uuid4()),
            created_ns=wall_ns,
            epoch_offset_ns=wall_ns - monotonic_ns,
            tokens_recorded=tokens_recorded,
        )

    @classmethod
    def load(cls, run_dir: Path) -> "RunInfo":
        """Read run.json. Raises TraceError if the folder is no run, or one of a newer format."""
        try:
            values = json.loads((run_dir / RUN_FILE).read_text())
            info = cls(**values)
        except FileNotFoundError:
            raise TraceError(f"{run_dir} is not a run: it has no {RUN_FILE}") from None
        except (ValueError, TypeError) as error:
            raise TraceError(f"{run_dir / RUN_FILE} cannot be read: {error}") from error
        if info.format != FORMAT:
            raise TraceError(
                f"{run_dir} has trace format {info.format}, this version reads {FORMAT}: "
                "open it with the version of cutaway that recorded it"
            )
        return info

    def save(self, run_dir: Path) -> None:
        """Write run.json, whole or not at all."""
        write_atomically(run_dir / RUN_FILE, asdict(self))

    def sealed(self, summary: dict[str, Any]) -> "RunInfo":
        """The same run, complete."""
        return replace(self, state="sealed", summary=summary)


def write_atomically(path: Path, content: dict[str, Any]) -> None:
    """Write JSON so that a reader sees the old file or the new one, never half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(content, indent=1) + "\n")
    os.replace(draft, path)


def lock_run(run_dir: Path) -> int | None:
    """The right to fill this run's tables, as a locked file descriptor; None if somebody has it.

    It lasts until the last copy of the descriptor is closed, so a process that is killed gives it back.
    """
    fd = os.open(run_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd


def recorder_url(run_dir: Path) -> str | None:
    """Where the run's recorder answers, if it has got that far; one that was killed leaves its URL behind."""
    try:
        said = json.loads((run_dir / RECORDER_FILE).read_text())
    except FileNotFoundError:
        return None
    return str(said["url"])


def checkout_folder() -> Path | None:
    """The current folder, if it is a checkout of Cutaway."""
    try:
        project = tomllib.loads(Path("pyproject.toml").read_text()).get("project", {})
    except (OSError, tomllib.TOMLDecodeError):
        return None
    return Path.cwd() if project.get("name") == "cutaway" else None


def runs_folder() -> Path:
    """Where new runs go: traces/runs of a checkout, else the user's data folder."""
    checkout = checkout_folder()
    if checkout is not None:
        return checkout / "traces" / "runs"
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "cutaway" / "runs"


def new_run_folder() -> Path:
    """A fresh name like 20261130-142233-ab12, in local time, so that names sort by age. Not yet made."""
    return runs_folder() / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def list_runs() -> list[tuple[Path, RunInfo]]:
    """All runs at hand, oldest first: own recordings, and in a checkout the sample runs it comes with."""
    roots = [runs_folder()]
    checkout = checkout_folder()
    if checkout is not None:
        roots.append(checkout / "traces")
    found = []
    for root in roots:
        for run_file in sorted(root.glob(f"*/{RUN_FILE}")):
            try:
                found.append((run_file.parent, RunInfo.load(run_file.parent)))
            except TraceError:
                continue  # another version's run is no reason to show none
    return sorted(found, key=lambda run: run[1].created_ns)


def find_run(text: str) -> Path:
    """A run by path, by name, by a unique start of its name, or `last`.

    Raises TraceError that lists what there is when none or several fit.
    """
    if (Path(text) / RUN_FILE).exists():
        return Path(text)
    runs = [path for path, _ in list_runs()]
    if text == "last" and runs:
        return runs[-1]
    fitting = [path for path in runs if path.name.startswith(text)]
    exact = [path for path in fitting if path.name == text]
    if len(exact or fitting) == 1:
        return (exact or fitting)[0]
    names = ", ".join(path.name for path in (fitting or runs)[-8:])
    if fitting:
        raise TraceError(f"several runs start with {text!r}: {names}. Give more of the name.")
    known = f"Known runs: {names}." if names else f"There are no runs yet in {runs_folder()}."
    raise TraceError(f"no run {text!r}. {known}")
