"""Programs of a lesson, each in a process of its own: the experiment, and the oracle with the learner's kata.

The experiment needs torch and the engine, which lessons do not load; the kata is anybody's code,
which may never end. Neither can harm the screen that asked for it.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lessons.content import ROOT, Lesson
from lessons.errors import LessonError
from lessons.progress import home_folder
from lessons.text import Language

EXPERIMENT_SECONDS = 900
"""Far beyond the minute that an experiment should take: a busy or small machine is no error."""
KATA_SECONDS = 20


@dataclass(frozen=True, slots=True)
class KataResult:
    """What the oracle said of a kata."""

    passed: bool
    said: str


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
        raise LessonError(
            f"the experiment did not end within {EXPERIMENT_SECONDS} s; try {' '.join(command)} by hand"
        ) from None
    if done.returncode != 0:
        last = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise LessonError(f"the experiment failed: {last}")


def kata_path(lesson: Lesson) -> Path:
    """The learner's own kata; a copy of the stub is put there at first."""
    path = home_folder() / "katas" / lesson.name / "kata.py"
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(lesson.folder / "kata.py", path)
        except OSError as error:
            raise LessonError(
                f"no kata can be put at {path}: {error.strerror}. Set CUTAWAY_HOME to a folder of yours"
            ) from error
    return path


def check_kata(lesson: Lesson, kata: Path, language: Language) -> KataResult:
    """Hold a kata against the lesson's oracle."""
    oracle = str(lesson.folder / "kata_oracle.py")
    command = [sys.executable, oracle, str(kata), "--lang", language]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=_environment(), timeout=KATA_SECONDS
        )
    except subprocess.TimeoutExpired:
        return KataResult(False, f"no end within {KATA_SECONDS} s")
    said = done.stdout.strip() or done.stderr.strip()
    return KataResult(done.returncode == 0, said)


def _environment() -> dict[str, str]:
    """The programs lie outside any package, and find the packages here, wherever they are called from."""
    path = os.pathsep.join(filter(None, (str(ROOT.parent), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
