"""Colours by meaning. A request has one hue, in every view, in the browser and in the terminal.

    number of arrival:  0  1  2 ... 11 12 13 ...        the low 32 bits of a request id
    hue:                0  1  2 ... 11  0  1 ...

Invariant: the hue depends on the id alone, so live view, replay and lessons agree without asking each other.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any


@cache
def palette() -> dict[str, Any]:
    """The palette as `palette.toml` has it: `hues`, `web`, `tui`."""
    return tomllib.loads(Path(__file__).with_name("palette.toml").read_text())


def number_of(request_id: int) -> int:
    """A request's number in the order of arrival at its front end; what people call it: r7."""
    return request_id & 0xFFFFFFFF


def label_of(request_id: int | None) -> str:
    """How a request is called on screens: r7, or r3.7 if it came in by another front end than process 1."""
    if request_id is None:
        return "?"
    proc_id = request_id >> 32
    number = number_of(request_id)
    return f"r{number}" if proc_id <= 1 else f"r{proc_id}.{number}"


def hue_index(request_id: int, num_hues: int = 12) -> int:
    """Which hue a request has."""
    return number_of(request_id) % num_hues


def mix(hue: str, ground: str, share: float) -> str:
    """`share` of the hue, the rest ground, in sRGB bytes; colours as #RRGGBB."""
    parts = (
        round(int(hue[i : i + 2], 16) * share + int(ground[i : i + 2], 16) * (1 - share))
        for i in (1, 3, 5)
    )
    return "#" + "".join(f"{part:02X}" for part in parts)


def ink_on(hue: str) -> str:
    """Black or white, whichever can be read on the colour."""
    r, g, b = (int(hue[i : i + 2], 16) for i in (1, 3, 5))
    return "#15181C" if 0.299 * r + 0.587 * g + 0.114 * b > 110 else "#FFFFFF"
