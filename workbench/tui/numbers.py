"""Numbers as the screens write them: always as wide as the widest of their kind, so nothing moves.

times    `  29 ms`  `2.70 s`  `12.4 s`  ` 114 s`      six cells, unit inside
counts   1,234        shares   17 %        clock   mm:ss.cc
"""

from collections.abc import Sequence

NOTHING = "–"
"""None, or not yet. The screens draw it faint."""


def duration(ns: float | None) -> str:
    """A time of a request, six or seven cells: whole ms below a second, then three digits."""
    if ns is None:
        return f"{NOTHING:>6}"
    ms = ns / 1e6
    if ms < 999.5:
        return f"{ms:3.0f} ms"
    s = ns / 1e9
    if s < 9.995:
        return f"{s:.2f} s"
    if s < 99.95:
        return f"{s:.1f} s"
    return f"{s:4.0f} s" if s < 9999.5 else f"{s / 3600:4.0f} h"


def fine(ns: float) -> str:
    """A time inside a step: three digits, down to microseconds."""
    if ns < 999_500:
        return f"{ns / 1e3:.0f} µs"
    return f"{ns / 1e6:.1f} ms" if ns < 99_950_000 else duration(ns).strip()


def clock(ns: float) -> str:
    """Time since the run began."""
    minutes, seconds = divmod(max(0.0, ns) / 1e9, 60)
    return f"{int(minutes):02d}:{seconds:05.2f}"


def count(n: int | None) -> str:
    """A count with thousands commas."""
    return NOTHING if n is None else f"{n:,}" if n < 100_000 else f"{n / 1000:,.0f}k"


def percent(share: float | None) -> str:
    """A share as whole percent, without the sign."""
    return NOTHING if share is None else f"{share * 100:.0f}"


def levels(values: Sequence[float | None], top: float, num_levels: int) -> list[int | None]:
    """Heights of bars: 0 is zero, anything else at least 1; None stays None."""
    found: list[int | None] = []
    for value in values:
        if value is None:
            found.append(None)
        elif value <= 0 or top <= 0:
            found.append(0)
        else:
            found.append(max(1, min(num_levels, round(value / top * num_levels))))
    return found
