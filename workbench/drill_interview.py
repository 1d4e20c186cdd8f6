"""A mock interview from the first rung to the report.

The clock is the interview's, not the question's: when 45 minutes are over no further question is asked, and
the number of those not reached is said. A card that is passed on counts as weak in the report; it is no
review, so its date stays.
"""

from datetime import UTC, datetime
from pathlib import Path

from interview.deck import deck, make
from interview.mock import Report, make_report, make_stages
from interview.phrases import say
from interview.plan import MOCK_MINUTES
from interview.progress import Progress, Review, save
from interview.text import COLON
from workbench.drill_session import Ended, Session, Skipped
from workbench.drill_show import MUTE, Page


def hold_interview(
    session: Session, progress: Progress, path: Path, seed: int
) -> tuple[list[Review], Report]:
    """Ask along the ladder, keep progress after each answer, show and return the report."""
    lang, page = session.page.language, session.page
    stages = make_stages(deck(), progress, seed)
    total = sum(len(stage.cards) for stage in stages)
    page.heading(say("mock_title", lang, minutes=MOCK_MINUTES))
    started = session.clock()
    asked = 0
    reviews: list[Review] = []
    skipped: list[str] = []
    try:
        for stage in stages:
            rung = say(f"rung_{stage.rung}", lang)
            page.line()
            page.heading(say("mock_rung", lang, rung=rung, minutes=stage.minutes))
            for card in stage.cards:
                if session.clock() - started > 60 * MOCK_MINUTES:
                    page.say("mock_time_up", left=total - asked)
                    raise Ended
                asked += 1
                note = say("question_of", lang, n=asked, total=total)
                try:
                    review = session.ask(make(card.name, seed + asked), note, follow_up=True)
                except Skipped:
                    skipped.append(card.name)
                    continue
                reviews.append(review)
                progress = progress.with_review(review)
                save(path, progress)
    except Ended:
        pass
    report = make_report(reviews, skipped, progress, datetime.now(UTC))
    _show_report(page, report)
    return reviews, report


def _show_report(page: Page, report: Report) -> None:
    lang = page.language
    none = say("report_none", lang)
    page.line()
    page.heading(say("report", lang))
    means = [f"{page.dimension(d)} {mean:.1f}" for d, mean in report.means.items()]
    page.line(f"{say('scores', lang)}{COLON[lang]}{' · '.join(means) or none}")
    rows = {
        "report_strong": [page.dimension(d) for d in report.strong],
        "report_weak": [*(page.dimension(d) for d in report.weak), *report.weak_cards],
        "report_stale": list(report.stale),
        "report_review": list(report.review),
    }
    for key, values in rows.items():
        page.line(
            f"{say(key, lang)}{COLON[lang]}{', '.join(values) or none}", "" if values else MUTE
        )
