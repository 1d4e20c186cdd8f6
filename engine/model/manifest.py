"""A model folder is complete exactly when its manifest is there and agrees with its files.

The manifest is written last, after everything else is on the disk, so an interrupted conversion leaves a
folder without one. Sizes are compared whenever a model is used (microseconds); checksums, which mean reading
everything, when somebody asks.
Invariant: `write_manifest` is the last write into the folder before it gets its final name.
"""

import hashlib
import json
import os
from pathlib import Path

MANIFEST = "manifest.json"
PIECE_BYTES = 1 << 20


def sha256_of(path: Path) -> str:
    """Checksum of a file as hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def write_manifest(folder: Path, origin: str) -> None:
    """Bring every file of the folder to the disk, then record their sizes and checksums."""
    files = {}
    for path in sorted(folder.iterdir()):
        sync(path)
        files[path.name] = {"size": path.stat().st_size, "sha256": sha256_of(path)}
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps({"origin": origin, "files": files}, indent=1))
    sync(manifest)
    sync(folder)


def find_damage(folder: Path, *, contents: bool = False) -> str | None:
    """What is wrong with the folder, in words, or None. `contents` compares checksums too."""
    try:
        files = json.loads((folder / MANIFEST).read_text())["files"]
        wanted = {name: (entry["size"], entry["sha256"]) for name, entry in files.items()}
    except FileNotFoundError:
        return "it has no manifest: it was never finished"
    except (ValueError, KeyError, TypeError, AttributeError):
        return "its manifest cannot be read"
    for name, (size, sha256) in wanted.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
        if contents and sha256_of(path) != sha256:
            return f"{name} differs from what was written"
    return None


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
