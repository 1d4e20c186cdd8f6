"""Interview practice in Chromium: what is answered is judged, set right by the learner, and noted once."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from interview.deck import deck, make
from interview.drills import Choice, Number
from interview.marking import mark
from interview.progress import load, progress_path
from interview.questions import load_bank
from tests.workbench.web.conftest import Tab
from workbench.look.words import Words

ANSWER = (
    "KV lives in fixed-size blocks that a block table maps, so it need not be contiguous. "
    "<img src=x onerror=\"alert('pwned')\"> PagedAttention makes attention faster per step."
)


@pytest.fixture(autouse=True)
def progress(environment: None) -> Iterator[Path]:
    """No answers before, and none left behind."""
    path = progress_path()
    path.unlink(missing_ok=True)
    yield path
    path.unlink(missing_ok=True)


def drill(tab: Tab, path: str) -> Any:
    tab.open(f"/drill/{path}")
    tab.until("document.querySelector('#drill-body') !== null")
    return tab.page.locator("#drill-body")


def test_the_deck_is_narrowed_by_its_address(tab: Tab) -> None:
    tab.open("/drill?kind=numeric&level=1")
    tab.until("document.querySelector('.deck tbody tr') !== null")
    known = [card for card in deck() if (card.kind, card.level) == ("numeric", 1)]
    assert 2 < len(known) == tab.page.locator(".deck tbody tr").count()
    assert f"{len(known)} cards: 0 due, {len(known)} new" in tab.page.inner_text(".drill")
    tab.page.click(".narrow nav:nth-child(2) >> text=all")
    tab.until("location.search === '?level=1'")
    of_level = sum(card.level == 1 for card in deck())
    tab.until(f"document.querySelectorAll('.deck tbody tr').length === {of_level}")
    tab.page.click("text=Start")
    tab.until("document.querySelector('#drill-body') !== null")
    assert "level=1" in tab.page.url
    assert "seed=" in tab.page.url


def test_a_number_is_asked_until_it_is_one_and_noted_once(tab: Tab, progress: Path) -> None:
    body = drill(tab, "numeric/kv?seed=3&kind=numeric")
    asked = make("numeric/kv", 3)
    assert isinstance(asked.answer, Number)
    tab.until("/^2:5|^3:00/.test(document.querySelector('.countdown').textContent)")
    body.locator("input").fill("a lot")
    tab.page.keyboard.press("Enter")
    tab.until("document.querySelector('#drill-body [role=alert]') !== null")
    assert not progress.exists()
    body.locator("input").fill(str(asked.answer.value))
    tab.page.keyboard.press("Enter")
    tab.until("document.querySelector('.verdict') !== null")
    assert "✓" in body.locator(".verdict").inner_text()
    assert body.locator(".derivation tr").count() == len(asked.answer.derivation)
    (review,) = load(progress).reviews
    assert (review.card, review.share, review.late) == ("numeric/kv", 1.0, False)
    body.locator("text=Next").click()
    tab.until("!location.pathname.endsWith('/kv')")
    assert tab.page.url.split("/drill/")[1].startswith("numeric/")


def test_a_wrong_statement_is_answered_with_its_reply(tab: Tab, progress: Path) -> None:
    asked = make("choice/q02", 5)
    assert isinstance(asked.answer, Choice)
    wrong = next(i for i in range(len(asked.answer.options)) if i != asked.answer.right)
    body = drill(tab, "choice/q02?seed=5")
    body.locator("button.option").nth(wrong).click()
    tab.until("document.querySelector('.verdict') !== null")
    assert asked.answer.replies[wrong].en in body.inner_text()
    assert asked.answer.options[asked.answer.right].en in body.locator(".right").inner_text()
    assert load(progress).reviews[0].share == 0


def test_an_open_answer_is_marked_and_set_right_before_it_is_noted(
    tab: Tab, progress: Path
) -> None:
    question = load_bank()["q02"]
    marking = mark(question, ANSWER)
    assert marking.heard
    assert marking.mistakes
    body = drill(tab, "concept/q02?seed=5")
    body.locator("button").click()
    tab.until("document.querySelector('#drill-body [role=alert]') !== null")
    body.locator("textarea").fill(ANSWER)
    body.locator("button").click()
    tab.until("document.querySelector('.ticks') !== null")
    assert body.locator("blockquote").inner_text() == ANSWER
    assert body.locator("img").count() == 0
    points = body.locator(".ticks").nth(0).locator("input")
    ticked = [points.nth(i).is_checked() for i in range(points.count())]
    assert sum(ticked) == len(marking.heard)
    assert not progress.exists()
    points.nth(ticked.index(False)).check()
    for box in body.locator(".ticks").nth(1).locator("input").all():
        box.uncheck()
    body.locator("button").click()
    tab.until("document.querySelector('#drill-body .facts') !== null")
    (review,) = load(progress).reviews
    assert review.machine_share == marking.share < review.share
    assert review.scores is not None
    assert review.scores["mechanism"] > marking.scores["mechanism"]
    tab.page.reload()
    tab.until("document.querySelector('#drill-body textarea') !== null")
    assert len(load(progress).reviews) == 1


def test_keys_and_a_draft(new_tab: Callable[..., Tab], progress: Path) -> None:
    tab = new_tab(color_scheme="dark")
    dark = [{"name": "cutaway_theme", "value": "dark", "url": tab.base}]
    tab.page.context.add_cookies(dark)
    asked = make("choice/q02", 5)
    assert isinstance(asked.answer, Choice)
    drill(tab, "choice/q02?seed=5")
    tab.until("document.activeElement.matches('button.option')")
    tab.page.keyboard.press("abcd"[asked.answer.right])
    tab.until("document.activeElement.matches('#drill-body a.primary')")
    assert load(progress).reviews[0].share == 1
    tab.page.keyboard.press("Enter")
    tab.until("!location.pathname.endsWith('choice/q02')")

    drill(tab, "concept/q02?seed=5")
    tab.until("document.activeElement.matches('textarea')")
    tab.page.keyboard.type(ANSWER)
    tab.page.click(".lang")
    tab.until(
        "document.documentElement.lang === 'zh' || document.querySelector('.lang.zh') !== null"
    )
    tab.until(f"document.querySelector('#drill-body textarea')?.value.length === {len(ANSWER)}")
    tab.page.click("#drill-body button.primary")
    tab.until("document.activeElement.matches('.ticks input')")
    ground, ink = tab.page.evaluate(
        "[document.querySelector('.sheet'), document.querySelector('.ticks label span span')]"
        ".map((node, i) => getComputedStyle(node)[i ? 'color' : 'backgroundColor'])"
    )
    numbers = [[float(n) for n in re.findall(r"[\d.]+", colour)[:3]] for colour in (ground, ink)]
    assert abs(sum(numbers[0]) - sum(numbers[1])) > 300, (ground, ink)
    tab.page.click("#drill-body button.primary")
    tab.until("document.querySelector('#drill-body .facts') !== null")
    assert tab.page.evaluate("sessionStorage.length") == 0


def test_it_speaks_chinese_and_refuses_what_is_no_card(new_tab: Callable[..., Tab]) -> None:
    tab = new_tab()
    tab.page.context.add_cookies([{"name": "cutaway_lang", "value": "zh", "url": tab.base}])
    tab.open("/drill")
    tab.until("document.querySelector('.deck tbody tr') !== null")
    assert Words("zh")("web.drill.start") in tab.page.inner_text(".drill")
    tab.open("/drill/concept/..%2F..%2Fsecrets")
    tab.until("document.querySelector('.statebox') !== null")
    assert "没有「concept/../../secrets」这道题" in tab.page.inner_text(".statebox")
