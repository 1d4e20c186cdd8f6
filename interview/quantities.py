"""Numbers with units in prose: `112 KiB`, `114,688 bytes`, `约 2.26 秒`, `62.5%`.

Invariant: a quantity is compared in base units (bytes, seconds, fractions); a number without a unit is
compared with the expected number as it was written.
Source: IEC 80000-13 for binary prefixes; a plain `KB` is read as either 1,000 or 1,024.
"""

import re
from dataclasses import dataclass

from interview.text import half_width

NUMBER = re.compile(
    r"(?<![\w.])(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)\s?"
    r"(k(?![a-z])|[kmg]i?b/s|[kmg]i?b\b|bytes?\b|b\b|字节|ms\b|毫秒|µs\b|us\b|微秒|seconds?\b|s\b|秒|%|percent|x\b|times\b|倍)?"
)
SCALE: dict[str, dict[str, float]] = {
    "bytes": {"b": 1, "byte": 1, "bytes": 1, "字节": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30},
    "seconds": {"s": 1, "second": 1, "seconds": 1, "秒": 1, "ms": 1e-3, "毫秒": 1e-3}
    | {"us": 1e-6, "µs": 1e-6, "微秒": 1e-6},
    "share": {"%": 0.01, "percent": 0.01},
    "bytes/s": {"kib/s": 2**10, "mib/s": 2**20, "gib/s": 2**30},
}
LOOSE = {"kb": (1e3, 2**10), "mb": (1e6, 2**20), "gb": (1e9, 2**30)}
"""Units that people write for both meanings."""
KIND_OF = {unit: kind for kind, units in SCALE.items() for unit in units}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as written, and what it may mean in base units."""

    number: float
    kind: str
    """`bytes`, `seconds`, `share`, `bytes/s`, or empty for a bare or counted number."""
    values: tuple[float, ...]


def quantities(text: str) -> list[Quantity]:
    """All quantities in a text, in order."""
    found = []
    for number, unit in NUMBER.findall(half_width(text).lower()):
        value, unit = float(number.replace(",", "")), unit.replace("/s", "") + "/s" * ("/s" in unit)
        found.append(_quantity(value, unit))
    return found


def agree(found: Quantity, expected: Quantity, tolerance: float) -> bool:
    """Whether a found number is the expected one, within a relative tolerance."""
    if found.kind == expected.kind:
        pairs = [(f, e) for f in found.values for e in expected.values]
    elif not found.kind or not expected.kind:
        pairs = [(found.number, expected.number)]
    else:
        return False
    # Not below what the last bit of a conversion may cost: 2260 ms are 2.26 s.
    return any(abs(f - e) <= max(tolerance, 1e-9) * abs(e) for f, e in pairs)


def _quantity(number: float, unit: str) -> Quantity:
    rate = unit.endswith("/s") and unit != "/s"
    base = unit.removesuffix("/s")
    if base in LOOSE:
        return Quantity(
            number, "bytes/s" if rate else "bytes", tuple(number * scale for scale in LOOSE[base])
        )
    if unit == "k":
        return Quantity(number * 1000, "", (number * 1000,))
    kind = KIND_OF.get(unit, "")
    scale = SCALE[kind][unit] if kind else 1.0
    return Quantity(number, kind, (number * scale,))
