"""The replay page in Chromium: known marks of a known run, in data, in words and in pixels."""

from collections.abc import Callable
from typing import Any

from tests.workbench.web.conftest import RUN, Tab
from tracing.reader import Run, state_at
from workbench.look.palette import hue_index, palette

PAGE = f"/replay/{RUN}"
STATES = ("free", "cached", "used")


def rgb(text: str) -> tuple[int, int, int]:
    r, g, b = (int(text[i : i + 2], 16) for i in (1, 3, 5))
    return r, g, b


def hue(request_id: int) -> tuple[int, int, int]:
    return rgb(palette()["hues"]["light"][hue_index(request_id)])


def test_the_step_under_the_cursor_is_the_recorded_one(tab: Tab, run: Run) -> None:
    tab.replay(f"{PAGE}?step=59&theme=light")
    rows = run.sql(
        "SELECT request_id, num_scheduled_tokens FROM step_request WHERE step = 59 ORDER BY row"
    ).rows
    report = tab.report()
    assert [tuple(row) for row in report["rows"]] == rows
    (step,) = run.sql("FROM step WHERE step = 59").dicts()
    told = {name: report["blocks"][name] for name in STATES if name != "free"}
    assert told == {"cached": step["cached_free_blocks"], "used": step["used_blocks"]}
    assert tab.page.inner_text(".clock").startswith("step 59 of 96")
    label = tab.page.get_attribute("[data-plot=batch] .base", "aria-label")
    assert label is not None
    assert label.startswith("Step 59:")
    assert f"{step['num_waiting']} requests wait" in label
    assert tab.page.locator("[data-table=step] tbody tr").count() == len(rows)


def test_marks_have_the_hue_of_their_request(tab: Tab, run: Run) -> None:
    tab.replay(f"{PAGE}?step=59&theme=light")
    marks = """(kind) => {
      const page = window.cutaway.get(), view = page.timeline.views.find((v) => v.name === kind);
      return view.marksAt(59).map((m) => [m.request, view.rect(m, page.timeline.scale)]).filter(([, r]) => r);
    }"""
    decodes = {
        row[0]
        for row in run.sql(
            "SELECT request_id FROM step_request WHERE step = 59 AND NOT is_prefill"
        ).rows
    }
    seen = 0
    for request, (x, y, w, h) in tab.page.evaluate(marks, "batch"):
        if request in decodes:
            assert tab.pixel("batch", x + w // 2, y + h // 2) == hue(request)
            seen += 1
    assert seen == len(decodes) > 1
    # A block that one request has filled is all its hue; its corners are round, its middle has text.
    script = """() => { const { view } = window.cutaway.get().map, { pool, run, size } = view;
      const isFull = (held) => pool.fill(...held, run.blockSize) === run.blockSize;
      return Array.from({ length: pool.num - 1 }, (_, i) => i + 1)
        .filter((b) => pool.holders[b]?.length === 1 && isFull(pool.holders[b][0]))
        .map((b) => [pool.holders[b][0][0], ...view.at(b), size]); }"""
    full = tab.page.evaluate(script)
    assert full
    for request, x, y, size in full:
        assert tab.pixel("blocks", x + size // 2, y + 5) == hue(request)


def test_the_pool_is_right_after_any_step_forwards_and_backwards(tab: Tab, run: Run) -> None:
    tab.replay(f"{PAGE}?step=95")
    pool_of = """async (steps) => {
      const { run } = window.cutaway.get();
      await run.ensure(run.first, run.last);
      const told = [];
      for (const n of steps) {
        let pool = run.pool(n);
        while (!pool) { await new Promise((r) => setTimeout(r, 20)); pool = run.pool(n); }
        told.push(Array.from({ length: pool.num - 1 }, (_, i) => i + 1).map((b) => [
          pool.state[b], Number.isNaN(pool.key[b]) ? null : pool.key[b],
          (pool.holders[b] || []).map(([id, idx]) => [id, idx]).sort((p, q) => p[0] - q[0])]));
      }
      return told;
    }"""
    steps = [*range(0, 96, 3), *range(94, -1, -11)]
    for step, told in zip(steps, tab.page.evaluate(pool_of, steps), strict=True):
        known = state_at(run, "kv_at", engine=0, step=step).dicts()
        expected = [
            [
                STATES.index(row["state"]),
                row["free_key"],
                [list(pair) for pair in zip(row["holders"], row["idxs"], strict=True)],
            ]
            for row in known
        ]
        assert told == expected, f"after step {step}"


def test_playing_and_stepping_arrive_where_they_should(tab: Tab) -> None:
    tab.replay(f"{PAGE}?step=60")
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("Shift+ArrowRight")
    tab.settled()
    assert tab.report()["step"] == 71
    tab.page.keyboard.press("Home")
    tab.page.keyboard.press(">")
    tab.page.keyboard.press("Space")
    tab.until("window.cutaway.report().playing")
    tab.until("!window.cutaway.report().playing")  # it stops by itself at the end
    tab.settled()
    report = tab.report()
    assert (report["step"], report["last"]) == (95, 95)
    assert report["rows"] == tab.page.evaluate(
        "window.cutaway.get().run.step(95).rows.map((r) => [r.id, r.n])"
    )


def test_jumps_walk_the_preemptions_and_the_card_says_why(tab: Tab, run: Run) -> None:
    victims = run.sql(
        "SELECT step, request_id, other_id FROM decision WHERE code BETWEEN 501 AND 503 ORDER BY seq"
    ).rows
    tab.replay(f"{PAGE}?step=0")
    for place, (step, request, _) in enumerate(victims[:3], 1):
        tab.page.keyboard.press("]")
        tab.until(f"window.cutaway.report().card?.place === {place}")
        tab.settled()
        card = tab.report()["card"]
        assert (card["step"], card["request"], card["count"]) == (step, request, len(victims))
    tab.page.keyboard.press("[")
    tab.until("window.cutaway.report().card?.place === 2")
    _, request, cause = victims[1]
    name, other = (f"r{x & 0xFFFFFFFF}" for x in (request, cause))
    title = "document.querySelector('#why h2').innerText.replace(/\\s+/g, ' ').trim()"
    tab.until(f"{title} === '{name} is preempted'")
    text = tab.page.inner_text("#why")
    assert "preempt_" in text
    assert other in text
    assert f"2 of {len(victims)}" in text
    tab.page.click("#why footer a")  # open in SQL: the same rows, in the page for questions
    tab.until("document.querySelector('.ag-center-cols-container .ag-row') !== null")
    assert "from decision" in tab.page.input_value("#sql-text")
    tab.page.go_back()
    tab.until("window.cutaway?.report()?.state === 'ready'")
    assert tab.report()["step"] == victims[1][0]


def test_a_deep_link_restores_what_was_seen(new_tab: Callable[..., Tab]) -> None:
    first = new_tab()
    first.replay(f"{PAGE}?step=40")
    for key in ("t", "]"):
        first.page.keyboard.press(key)
    first.until("window.cutaway.report().card !== null")
    first.page.keyboard.press("f")
    first.until("location.search.includes('mark=') && location.search.includes('req=')")
    first.settled()
    keys = ("step", "a", "b", "axis", "req")
    seen = {key: first.report()[key] for key in keys}
    second = new_tab()
    second.replay(first.page.url.removeprefix(first.base))
    assert {key: second.report()[key] for key in keys} == seen
    assert second.report()["card"]["kind"] == "preempt"
    second.until("document.querySelector('#why .triangle') !== null")


def test_a_brush_keeps_the_requests_of_its_steps(tab: Tab, run: Run) -> None:
    tab.replay(f"{PAGE}?step=25&from=20&to=22")
    kept = {
        row[0]
        for row in run.sql(
            "SELECT request_id FROM request_life l WHERE request_id IN (SELECT request_id FROM"
            " step_request GROUP BY ALL HAVING min(step) <= 22 AND max(step) >= 20)"
        ).rows
    }
    shown = set(tab.report()["lives"])
    assert shown
    assert shown <= kept
    tab.page.keyboard.press("Escape")
    tab.until("window.cutaway.report().from === null")
    tab.settled()
    assert not set(tab.report()["lives"]) <= kept


def test_every_mark_kind_has_a_story(tab: Tab, run: Run) -> None:
    tab.replay(f"{PAGE}?step=59")
    request = run.sql("SELECT request_id FROM step_request WHERE step = 59 LIMIT 1").rows[0][0]
    waits = run.sql(
        "SELECT request_id FROM request WHERE arrival_ns <= (SELECT start_ns FROM step WHERE step = 59)"
        " AND request_id NOT IN (SELECT request_id FROM step_request WHERE step <= 59) LIMIT 1"
    ).rows[0][0]
    show = """([kind, request, block]) => {
      document.querySelector('#why .whybody').replaceChildren();
      window.cutaway.get().state.set({ card: { view: 'lives', kind, step: 59, request, block } });
    }"""
    fresh = "document.querySelector('#why section') && document.getElementById('why').innerText"
    for kind, who, block in [
        ("row", request, None),
        ("wait", waits, None),
        ("first_token", request, None),
        ("gap", request, None),
        ("end", request, None),
        ("step", None, None),
        ("block", None, 3),
    ]:
        tab.page.evaluate(show, [kind, who, block])
        text: Any = tab.until(fresh)
        assert "Evidence" in text, kind
        assert "{" not in text, f"a placeholder was not filled: {text}"
        assert "?" not in text.split("Evidence")[0], text
