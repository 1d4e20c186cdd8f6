"""What a run is called, and one plain sentence about it: from its folder's name and its own numbers."""

import re
import time
from typing import Any

from tracing.runs import RunInfo
from workbench.look.words import Words

_STAMP = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}$")


def run_title(words: Words, name: str, info: RunInfo) -> str:
    """A recording is called by its time, anything else by its name: `pressure-200` is Pressure 200."""
    if _STAMP.match(name):
        when = time.localtime(info.created_ns / 1e9)
        month = words(f"web.month.{when.tm_mon}")
        clock = time.strftime("%H:%M", when)
        return words("web.run.recorded", day=when.tm_mday, month=month, time=clock)
    text = name.replace("_", " ").replace("-", " ").strip()
    return text[:1].upper() + text[1:]


def run_sentence(words: Words, info: RunInfo) -> str:
    """What happened, in one sentence."""
    said: dict[str, Any] = info.summary
    if info.state != "sealed":
        return words("web.run.live")
    if not said.get("requests"):
        return words("web.run.empty")
    seconds = f"{(said.get('duration_ns') or 0) / 1e9:,.1f}"
    values = {"requests": f"{said['requests']:,}", "model": said.get("model") or "–", "s": seconds}
    if said.get("preemptions"):
        every = max(1, round((said.get("steps") or 0) / said["preemptions"]))
        return words("web.run.pressed", every=every, **values)
    return words("web.run.calm", **values)
