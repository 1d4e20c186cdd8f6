"""What a person types to get somewhere: r81, #81, b12, step 300, 00:10.4, or a word of a reason."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from workbench.look.palette import label_of
from workbench.tui.log import Entry
from workbench.tui.model import Model
from workbench.tui.places import Place
from workbench.tui.session import Session


@dataclass(frozen=True, slots=True)
class Found:
    """Where to go; exactly one is set."""

    request_id: int | None = None
    block_id: int | None = None
    step: int | None = None


def as_command(session: Session, here: Place) -> str | None:
    """The question behind a screen as a command for the shell; None: there is no run by a name."""
    source, model = session.source, session.model
    if source is None or model is None:
        return None
    step, request_id = model.step, here.request_id
    match here.screen:
        case "request" if request_id is not None:
            query = f"FROM token WHERE request_id = {request_id} ORDER BY k"
        case "requests":
            query = "FROM request_life ORDER BY arrival_ns"
        case "blocks":
            query = f"FROM kv_event WHERE step = {step} ORDER BY seq"
        case "decisions":
            query = f"FROM decision JOIN reason USING (code) WHERE step = {step} ORDER BY seq"
        case "batch":
            query = f"FROM step_request WHERE step = {step} ORDER BY row"
        case _:
            query = f"FROM step WHERE step <= {step} ORDER BY step DESC LIMIT 240"
    name = source.run_dir.name if source.run_dir else source.title
    return f'cutaway trace sql {name} "{query}"'


def parse_place(text: str, model: Model) -> int | None:
    """A step (`300`, `step 300`) or the step at a time (`10.4`s, `00:10.4`); None: neither."""
    text = text.strip().lower()
    number = re.fullmatch(r"(?:step\s*)?(\d+)", text)
    if number:
        return int(number[1])
    time = re.fullmatch(r"(?:(\d+):)?(\d+(?:\.\d+)?)\s*s?", text)
    if time is None:
        return None
    at_ns = model.created_ns + (int(time[1] or 0) * 60 + float(time[2])) * 1e9
    row = model.run.sql(
        f"SELECT max(step) FROM step WHERE engine_id = {model.state.engine_id or 0} "
        f"AND end_ns <= {int(at_ns)}"
    ).rows[0][0]
    return 0 if row is None else int(row)


def parse_find(text: str, model: Model, say: Callable[[Entry], str]) -> Found | None:
    """A request, a block, a step, or the last line of the log that has these words."""
    plain = text.strip().lower()
    request = re.fullmatch(r"[r#](\d+(?:\.\d+)?)", plain)
    if request:
        wanted = f"r{request[1]}"
        ids = [r for r in model.facts if label_of(r) == wanted]
        return Found(request_id=ids[0]) if ids else None
    block = re.fullmatch(r"b(?:lock)?\s*(\d+)", plain)
    if block:
        return Found(block_id=int(block[1])) if int(block[1]) in model.state.blocks else None
    step = re.fullmatch(r"(?:step\s*)?(\d+)", plain)
    if step:
        return Found(step=int(step[1]))
    for entry in reversed(model.timeline.entries(model.step, 5000)):
        if plain in say(entry).lower() or (
            entry.code and plain == model.reasons.name(entry.code).lower()
        ):
            return Found(step=entry.step)
    return None
