"""What a person types to get somewhere: r81, #81, b12, step 300, 00:10.4, or a word of a reason."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from workbench.tui.log import Entry
from workbench.tui.model import Model
from workbench.tui.places import Place
from workbench.tui.session import Session


@dataclass(frozen=True, slots=True)
class Found:
    """Where to go; exactly one is set, but a request that is not at hand comes with life and step."""

    request_id: int | None = None
    engine_id: int | None = None
    block_id: int | None = None
    step: int | None = None


def as_command(session: Session, here: Place) -> str | None:
    """The question behind a screen as a command for the shell; None: there is no run by a name."""
    source, model = session.source, session.model
    if source is None or model is None:
        return None
    request_id = here.request_id
    in_life, at_step = f"engine_id = {model.state.engine_id or 0}", f"step = {model.step}"
    match here.screen:
        case "request" if request_id is not None:
            query = f"FROM token WHERE request_id = {request_id} ORDER BY k"
        case "requests":
            query = "FROM request_life ORDER BY arrival_ns"
        case "blocks":
            query = f"FROM kv_event WHERE {in_life} AND {at_step} ORDER BY seq"
        case "decisions":
            decided = f"WHERE {in_life} AND {at_step} ORDER BY seq"
            query = f"FROM decision JOIN reason USING (code) {decided}"
        case "batch":
            query = f"FROM step_request WHERE {in_life} AND {at_step} ORDER BY row"
        case _:
            query = (
                f"FROM step WHERE {in_life} AND step <= {model.step} ORDER BY step DESC LIMIT 240"
            )
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


def find_request(text: str, model: Model) -> Found | None:
    """A request of the whole run, and the last step that dealt with it. In a thread. Raises TraceError."""
    ids = ", ".join(str(request_id) for request_id in _ids_of(text.strip().lower()))
    rows = model.run.sql(_FIND.format(ids=ids)).rows if ids else ()
    return next((Found(request_id=who, engine_id=e, step=step) for who, e, step in rows), None)


def _ids_of(plain: str) -> list[int]:
    """The requests that may be called so (`label_of`); empty: it is no name of a request."""
    name = _REQUEST.fullmatch(plain)
    if name is None:
        return []
    number, procs = int(name[2]), (1, 0) if name[1] is None else (int(name[1]),)
    return [(proc_id << 32) + number for proc_id in procs if number < 1 << 32 > proc_id]


_REQUEST = re.compile(r"[r#](?:(\d+)\.)?(\d+)")
_FIND = """
WITH q AS (SELECT request_id, arrival_ns FROM request WHERE request_id IN ({ids})),
s AS (
    SELECT 0 AS place, request_id, engine_id, max(step) AS step
    FROM step_request JOIN q USING (request_id) GROUP BY ALL
    UNION ALL  -- it was in none: the first one after it came
    SELECT 1, request_id, engine_id, min(step) FROM q JOIN step ON end_ns >= arrival_ns GROUP BY ALL)
SELECT request_id, engine_id, step FROM s
ORDER BY place, CASE place WHEN 0 THEN -engine_id ELSE engine_id END LIMIT 1
"""


def parse_find(text: str, model: Model, say: Callable[[Entry], str]) -> Found | None:
    """A request, a block, a step, or the last line of the log that has these words."""
    plain = text.strip().lower()
    if _REQUEST.fullmatch(plain):
        ids = [request_id for request_id in _ids_of(plain) if request_id in model.facts]
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
