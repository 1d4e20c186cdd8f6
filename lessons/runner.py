"""Programs of a lesson, each in a process of its own: the experiment, and the oracle with the learner's kata.

The experiment needs torch and the engine, which lessons do not load; the kata is anybody's code,
which may never end. Neither can harm the screen that asked for it.
"""

import os
import secrets
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lessons.content import ROOT, Lesson
from lessons.errors import LessonError
from lessons.progress import home_folder
from lessons.text import Language, both, say

EXPERIMENT_SECONDS = 900
"""Far beyond the minute that an experiment should take: a busy or small machine is no error."""
KATA_SECONDS = 20
PRINTED_LINES = 8
"""Of what a kata prints, the last: they are of the case that failed."""


@dataclass(frozen=True, slots=True)
class KataResult:
    """What the oracle said of a kata."""

    passed: bool
    said: str
    printed: str = ""
    """The last lines that the kata itself wrote."""


def run_experiment(
    lesson: Lesson, run_dir: Path, *, model: str | None = None, wrong: bool = False
) -> None:
    """Run a lesson's experiment into a new run folder. Raises LessonError with its last words."""
    command = [sys.executable, str(lesson.folder / "experiment.py"), str(run_dir)]
    command += ["--model", model] if model else []
    command += ["--wrong"] if wrong else []
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=_environment(), timeout=EXPERIMENT_SECONDS
        )
    except subprocess.TimeoutExpired:
        by_hand = " ".join(command)
        raise LessonError(
            both("experiment_endless", seconds=EXPERIMENT_SECONDS, command=by_hand)
        ) from None
    if done.returncode != 0:
        last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise LessonError(both("experiment_failed", last=last))


def kata_path(lesson: Lesson) -> Path:
    """The learner's own kata; a copy of the stub is put there at first."""
    path = home_folder() / "katas" / lesson.name / "kata.py"
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(lesson.folder / "kata.py", path)
        except OSError as error:
            raise LessonError(both("kata_unplaced", path=path, why=error.strerror)) from error
    return path


def check_kata(lesson: Lesson, kata: Path, language: Language) -> KataResult:
    """Hold a kata against the lesson's oracle.

    It passed if the oracle came to its end and said so: an exit status alone may be the kata's own.
    """
    oracle, seal = str(lesson.folder / "kata_oracle.py"), secrets.token_hex(16)
    command = [sys.executable, oracle, str(kata), "--lang", language, "--seal", seal]
    try:
        done = subprocess.run(
            command, capture_output=True, env=_environment(), timeout=KATA_SECONDS
        )
    except subprocess.TimeoutExpired as late:
        said = say("kata_endless", language, seconds=KATA_SECONDS)
        return KataResult(False, said, _last_lines(late.stderr or b""))
    said, _, sealed = done.stdout.decode(errors="replace").strip().rpartition("\n")
    printed = _last_lines(done.stderr)
    if done.returncode == 0 and sealed == seal:
        return KataResult(True, said, printed)
    said = done.stdout.decode(errors="replace").strip()
    return KataResult(False, said or say("kata_exited", language, status=done.returncode), printed)


def _last_lines(written: bytes) -> str:
    lines = written.decode(errors="replace").strip().splitlines()
    return "\n".join(lines[-PRINTED_LINES:])


def _environment() -> dict[str, str]:
    """The programs lie outside any package, and find the packages here, wherever they are called from."""
    path = os.pathsep.join(filter(None, (str(ROOT.parent), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
