"""One request: found wherever it is, its end where it was, and the answer to what was sent."""

from pathlib import Path

import pytest

import workbench.tui.model
from tests.workbench.tui.conftest import drive, top
from tracing.reader import open_run
from workbench.tui.dialogs import Show
from workbench.tui.find import find_request
from workbench.tui.model import load
from workbench.tui.story import story_of

FIRST = 1 << 32


def test_a_request_ends_at_its_own_last_step(run_dir: Path) -> None:
    run = open_run(run_dir)
    last = dict(run.sql("SELECT request_id, max(step) FROM step_request GROUP BY 1").rows)
    run.close()

    async def main() -> None:
        async with top(run_dir) as t:
            model = t.app.desk.session.model
            assert model is not None
            ended = [r for r in model.state.requests.values() if r["code"] is not None]
            exact = 0
            for request in ended:
                who = request["request_id"]
                (end,) = (
                    entry
                    for entry in story_of(model, who, t.app.desk.answers, t.app.desk.words)
                    if entry.kind == "finish"
                )
                if who in last:  # others were aborted in the queue
                    assert last[who] <= end.step <= last[who] + 1  # aborted before the next one
                    exact += end.step == last[who]
            assert exact > 20

    drive(main)


def test_find_goes_to_a_request_that_only_the_trace_remembers(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workbench.tui.model, "SPAN", 16)
    monkeypatch.setattr(workbench.tui.model, "ALIGN", 16)
    run = open_run(run_dir)
    ((last,),) = run.sql(f"SELECT max(step) FROM step_request WHERE request_id = {FIRST + 2}").rows
    ((waited,),) = run.sql(
        "SELECT coalesce(min(request_id), 0) FROM request ANTI JOIN step_request USING (request_id)"
    ).rows
    model = load(run, "run", 0, 279)
    assert find_request("r9999", model) is None
    assert find_request("r7.2", model) is None
    if waited:
        found = find_request(f"r{waited - FIRST}", model)
        assert found is not None
        assert found.request_id == waited
    run.close()

    async def main() -> None:
        async with top(run_dir, step=279) as t:
            model = t.app.desk.session.model
            assert model is not None
            assert FIRST + 2 not in model.facts
            await t.pilot.press("slash")
            await t.type("r2")
            await t.app.workers.wait_for_complete()
            await t.settle()
            assert (t.place, t.step) == ("request", last)
            assert t.app.desk.places.here.request_id == FIRST + 2
            assert "Why, in order" in t.text
            await t.pilot.press("slash")
            await t.type("r9999")
            await t.app.workers.wait_for_complete()
            await t.settle()
            assert "not found: r9999" in "\n".join(t.header)

    drive(main)


ANSWER = "Once there was a scheduler.\n" + "Every block it gave away came back to it. " * 12


def test_the_answer_can_be_read(run_dir: Path) -> None:
    async def main() -> None:
        async with top(run_dir, (120, 36)) as t:
            t.app.desk.drafts["chat-80"] = ANSWER + "\x1b[2J The end."
            t.app.desktop.action_open_request(FIRST + 80)
            await t.settle()
            lines = t.text.splitlines()
            (heading,) = (i for i, line in enumerate(lines) if line.startswith(" Answer"))
            (why,) = (i for i, line in enumerate(lines) if line.startswith(" Why, in order"))
            shown = [line.strip() for line in lines[heading + 1 : why] if line.strip()]
            assert len(shown) >= 3
            assert set(" ".join(shown).split()) <= set(ANSWER.split()) | {"[2J", "The", "end."}
            assert shown[-1].endswith("The end.")
            await t.pilot.press("a")
            await t.pilot.pause(0.1)
            assert isinstance(t.app.screen, Show)
            assert t.app.screen._text.startswith("Once there was a scheduler.\nEvery")
            assert "\x1b" not in t.app.screen._text
            await t.press("escape")
            t.app.desktop.action_open_request(FIRST + 81)
            await t.press("a")
            assert "sent from here" in "\n".join(t.header)

    drive(main)
