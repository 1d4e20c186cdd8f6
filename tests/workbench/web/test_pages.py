"""The other pages in Chromium: start, metrics, SQL; languages, themes, sizes; text that wants to be code."""

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest

from lessons.content import find_lesson, load_lessons
from lessons.progress import Answer, Progress, now, progress_path, save
from tests.workbench.web.conftest import RUN, Tab
from tests.workbench.web.hostile import NAME, SCRIPT
from workbench.look.palette import palette
from workbench.look.words import Words

PAGES = ("/", f"/replay/{RUN}?step=59", f"/metrics/{RUN}", f"/sql/{RUN}", "/playground", "/learn")
READY = {
    "replay": "window.cutaway?.report()?.shown !== null && window.cutaway?.report()?.state === 'ready'",
    "metrics": "document.querySelectorAll('.chart .main-svg').length > 0",
    "sql": "document.querySelector('.ag-center-cols-container .ag-row') !== null",
    "playground": "document.querySelector('.statebox') !== null",
    "learn": "document.querySelector('.lessoncard, .lessonboard') !== null",
    "": "document.querySelectorAll('.runcard canvas[data-drawn]').length > 0",
}


def visit(tab: Tab, path: str) -> None:
    tab.open(path)
    tab.until(READY[path.split("?")[0].strip("/").split("/")[0]])


def test_the_start_page_shows_runs_with_their_pictures_and_numbers(tab: Tab) -> None:
    visit(tab, "/")
    tab.until("document.querySelectorAll('.runcard canvas[data-drawn]').length === 2")
    card = tab.page.locator(f".runcard[title={RUN}]")
    text = card.inner_text()
    assert "Small mixed" in text
    assert "A preemption every 14 steps" in text
    numbers = {
        name: card.locator(f"[data-number={name}]").inner_text()
        for name in ("requests", "steps", "preemptions", "budget_used")
    }
    assert numbers == {"requests": "30", "steps": "96", "preemptions": "7", "budget_used": "37 %"}
    assert "No server is running" in tab.page.inner_text("#servers")
    card.click()
    tab.until("window.cutaway?.report()?.state === 'ready'")
    assert tab.page.url.startswith(f"{tab.base}/replay/{RUN}")


def test_metrics_are_honest_about_few_samples_and_link_to_their_sql(tab: Tab) -> None:
    visit(tab, f"/metrics/{RUN}")
    queue = tab.page.locator("tr[data-metric=ttft_ns]").inner_text()
    assert "not estimable" in queue  # a p99 of less than 100 requests
    assert tab.page.locator("[data-metric=preemptions] b").inner_text() == "7"
    tab.page.click("[data-metric=kv] .source")
    tab.until(READY["sql"])
    assert "Use of the block pool" in tab.page.input_value("#sql-text")


def test_sql_is_asked_shown_taken_along_and_guarded(tab: Tab, tmp_path: Path) -> None:
    visit(tab, f"/sql/{RUN}?q={quote('select step, num_rows from step order by step limit 7')}")
    assert tab.page.inner_text("#sql-count") == "rows: 7"
    with tab.page.expect_download() as download:
        tab.page.click("[data-download=csv]")
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0] == "step,num_rows"
    assert len(lines) == 8
    with tab.page.expect_download() as download:
        tab.page.click("[data-download=parquet]")
    assert Path(download.value.path()).read_bytes()[:4] == b"PAR1"
    for bad in ("drop table step", "select * from read_csv('/etc/passwd')"):
        tab.page.fill("#sql-text", bad)
        tab.page.click("#sql-run")
        tab.until("document.querySelector('#sql-answer .alarm') !== null")
        tab.page.fill("#sql-text", "select 41 + 1 as fine")
        tab.page.keyboard.press("Control+Enter")
        tab.until("document.querySelector('#sql-count')?.innerText === 'rows: 1'")


def test_a_question_without_end_holds_up_nobody(tab: Tab, new_tab: Callable[..., Tab]) -> None:
    lang = "zh"
    endless = "select len(list_distinct(range(10000000)))"
    refused = "document.querySelector('#sql-answer .alarm')?.innerText ?? ''"
    visit(tab, f"/sql/{RUN}?lang={lang}")
    tab.page.fill("#sql-text", endless)
    tab.page.click("#sql-run")
    tab.until("!document.getElementById('sql-stop').hidden")
    visit(new_tab(), f"/metrics/{RUN}")
    tab.page.click("#sql-stop")
    tab.until(f"({refused}).includes('{Words(lang)('web.refusal.put_aside')}')")
    for bad, key in (
        ("select list_sum(range(1000000000))", "too_much"),
        ("drop table step", "not_a_question"),
    ):
        tab.page.fill("#sql-text", bad)
        tab.page.click("#sql-run")
        tab.until(f"({refused}).includes('{Words(lang)(f'web.refusal.{key}')}')")
    # Of two questions the first is put aside, and the second may still be stopped.
    of_run = "_dash-update-component"
    tab.page.fill("#sql-text", endless)
    with tab.page.expect_response(lambda answer: of_run in answer.url):
        tab.page.click("#sql-run")
        tab.page.fill("#sql-text", f"{endless} as second")
        tab.page.click("#sql-run")
    tab.page.wait_for_timeout(100)  # the page has seen that answer
    assert tab.page.locator("#sql-stop").is_visible()
    assert tab.page.locator("#sql-answer.asked").count() == 1
    tab.page.click("#sql-stop")
    tab.until("document.getElementById('sql-stop').hidden")
    assert tab.page.locator("#sql-answer.asked").count() == 0
    # Asked anew, it is put aside; and the address asks what is asked here.
    tab.page.fill("#sql-text", endless)
    tab.page.click("#sql-run")
    tab.page.fill("#sql-text", "select 41 + 1 as fine")
    tab.page.click("#sql-run")
    tab.until("document.querySelector('.ag-center-cols-container .ag-row')?.innerText === '42'")
    tab.until("location.search.includes('fine')")
    tab.page.reload()
    tab.until(READY["sql"])
    assert tab.page.input_value("#sql-text") == "select 41 + 1 as fine"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_page_speaks_the_language_fits_the_window_and_asks_nobody_else(
    tab: Tab, lang: str
) -> None:
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    words = Words(lang)
    for path in PAGES:
        visit(tab, f"{path}{'&' if '?' in path else '?'}lang={lang}")
        assert tab.page.get_attribute("html", "lang") == ("zh-Hans" if lang == "zh" else "en")
        nav = tab.page.inner_text("#nav")
        assert words("web.nav.metrics") in nav
        assert "web." not in tab.page.inner_text("body")
        if path.startswith("/replay"):
            label = tab.page.get_attribute("[data-plot=batch] .base", "aria-label")
            assert label is not None
            assert label.startswith("第 59 步" if lang == "zh" else "Step 59:")
        for width, height in ((1440, 900), (1280, 800), (800, 1100)):
            tab.page.set_viewport_size({"width": width, "height": height})
            tab.until(f"document.documentElement.scrollWidth <= {width}", seconds=5)
    outside = {u for u in asked if not u.startswith((tab.base, "data:", "blob:"))}
    assert outside == set()


def test_the_theme_changes_pictures_and_charts_too_and_is_kept(tab: Tab) -> None:
    tab.replay(f"/replay/{RUN}?step=59&theme=light")
    script = "getComputedStyle(document.querySelector('.card')).backgroundColor"
    assert tab.page.evaluate(script) == "rgb(255, 255, 255)"
    tab.page.keyboard.press("d")
    dark = palette()["web"]["dark"]["s1"]
    r, g, b = (int(dark[i : i + 2], 16) for i in (1, 3, 5))
    tab.until(f"{script} === 'rgb({r}, {g}, {b})'")
    tab.settled()
    hues = {tuple(int(h[i : i + 2], 16) for i in (1, 3, 5)) for h in palette()["hues"]["dark"]}
    x, y, w, h = tab.page.evaluate(
        "(() => { const { timeline } = window.cutaway.get(), view = timeline.batch;"
        " const mark = view.marksAt(59).find((m) => !window.cutaway.get().run.step(59).rows"
        ".find((r) => r.id === m.request).prefill); return view.rect(mark, timeline.scale); })()"
    )
    assert tab.pixel("batch", x + w // 2, y + h // 2) in hues
    # Charts are made by the server, which is told.
    visit(tab, f"/metrics/{RUN}")
    assert tab.page.get_attribute("html", "data-theme") == "dark"
    axis = "document.querySelector('.chart .xtick text').style.fill"
    ink3 = palette()["web"]["dark"]["ink3"]
    r, g, b = (int(ink3[i : i + 2], 16) for i in (1, 3, 5))
    assert tab.page.evaluate(axis) == f"rgb({r}, {g}, {b})"


def test_hostile_text_stays_text_on_every_page(tab: Tab) -> None:
    ask = quote("select external_id, model from request, run")
    for path in (
        f"/replay/{quote(NAME)}?step=4&mark=preempt.4.{(1 << 32) + 7}.0",
        f"/metrics/{quote(NAME)}",
        f"/sql/{quote(NAME)}?q={ask}",
    ):
        visit(tab, path)
    cell = tab.page.inner_text(".ag-center-cols-container .ag-row [col-id=c0]")
    assert cell == SCRIPT
    assert tab.page.locator("img[src=x], .replay script, #page script").count() == 0
    visit(tab, "/")
    assert NAME.replace("-", " ")[1:] in tab.page.inner_text("#runs")
    # Neither what asks for a run that is none, nor what asks nonsense, gets more than words.
    tab.open(f"/replay/{quote('no such run')}")
    tab.until("document.querySelector('.statebox') !== null")
    assert "There is no run of this name" in tab.page.inner_text(".statebox")
    tab.open(f"/replay/{quote('no such run')}?lang=zh")
    tab.until("document.querySelector('.statebox') !== null")
    assert Words("zh")("web.refusal.unknown_run") in tab.page.inner_text(".statebox")
    tab.errors = [error for error in tab.errors if "404" not in error]


def test_keys_are_listed_and_off_while_typing(tab: Tab) -> None:
    tab.replay(f"/replay/{RUN}?step=10")
    tab.page.keyboard.press("?")
    tab.until("document.getElementById('help').open")
    assert "Space" in tab.page.inner_text("#help")
    tab.page.keyboard.press("Escape")
    tab.until("!document.getElementById('help').open")
    tab.until("!document.activeElement.closest('dialog')")  # the focus comes back a moment later
    tab.page.keyboard.press("/")
    assert tab.page.evaluate("document.activeElement.id") == "find"
    tab.page.keyboard.type("r12")
    assert tab.report()["step"] == 10
    tab.page.keyboard.press("Enter")
    tab.until("window.cutaway.report().req !== null")
    assert tab.report()["req"] & 0xFFFFFFFF == 12
    tab.page.keyboard.press("g")
    tab.page.keyboard.type("33")
    tab.page.keyboard.press("Enter")
    tab.until("window.cutaway.report().step === 33")


def test_a_lesson_is_read_and_leads_to_the_run_that_was_made(
    tab: Tab, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path))
    visit(tab, "/learn")
    assert tab.page.locator(".lessoncard").count() == len(load_lessons())
    tab.page.click(".lessoncard[href='/learn/11']")
    tab.until("document.querySelector('.lessonboard') !== null")
    lesson = find_lesson("11")
    shown = tab.page.inner_text(".learn")
    assert lesson.prose["en"].title in shown
    assert all(question.ask.en in shown for question in lesson.predictions)
    assert "cutaway learn 11" in shown
    claims = [check.claim.en for check in lesson.checks]
    assert not any(claim in shown for claim in claims), "an answer before the question"
    # With a run that passed, the explanation lies open and the run can be replayed.
    answer = Answer("victim", "c", 0.9, True, now())
    done = Progress().with_answers(11, [answer], home / "cutaway/runs" / RUN).with_check(11)
    save(progress_path(), done)
    visit(tab, "/learn/11")
    shown = tab.page.inner_text(".learn")
    assert all(claim in shown for claim in claims)
    tab.until("document.querySelector('figure .onlight').naturalWidth > 0")
    tab.page.click(".lessonboard .primary")
    tab.until("window.cutaway?.report()?.state === 'ready'")
    tab.open("/learn/none")
    tab.until("document.querySelector('.learn .statebox.alarm') !== null")
    assert "11 preemption" in tab.page.inner_text(".learn")
