"""Theme and language that were chosen last, in the user's configuration folder."""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from workbench.look.words import LANGUAGES
from workbench.tui.theme import NAMES


@dataclass(frozen=True, slots=True)
class Settings:
    """What is kept."""

    theme: str = "dark"
    lang: str = "en"


def _path() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "cutaway" / "top.json"


def load() -> Settings:
    """What was chosen last; what cannot be read is as if it had never been chosen."""
    try:
        said = json.loads(_path().read_text())
        kept = Settings(**said)
    except (OSError, ValueError, TypeError):
        return Settings()
    known = kept.theme in NAMES and kept.lang in LANGUAGES
    return kept if known else Settings()


def save(chosen: Settings) -> None:
    """Keep it, if the folder can be written."""
    path = _path()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(chosen)) + "\n")
