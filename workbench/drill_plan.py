"""`cutaway drill plan`: the days until an interview, as a list."""

import json
from dataclasses import asdict
from datetime import UTC, date, datetime

import click

from interview.deck import deck
from interview.phrases import say
from interview.plan import Plan, make_plan
from interview.progress import Progress, load, progress_path, save
from interview.questions import TOPICS
from interview.text import COLON, Language
from workbench.drill_group import json_option, lang_option
from workbench.drill_show import Page

MAX_DAYS = 366


@click.command()
@click.option(
    "--date", "day", type=click.DateTime(["%Y-%m-%d"]), required=True, help="The interview."
)
@click.option("--minutes", type=click.IntRange(5), default=30, show_default=True, help="Per day.")
@click.option(
    "--topic", "topics", type=click.Choice(list(TOPICS)), multiple=True, help="Only these."
)
@lang_option
@json_option
def plan(
    day: datetime, minutes: int, topics: tuple[str, ...], lang: Language, as_json: bool
) -> None:
    """What to do on each day until the interview; the date is kept and shortens the repeats."""
    today, interview = datetime.now(UTC).date(), day.date()
    if interview <= today:
        message = say("error_date_past", lang, date=interview, today=today)
        raise click.BadParameter(message, param_hint="--date")
    if (interview - today).days > MAX_DAYS:
        message = say("error_date_far", lang, days=MAX_DAYS)
        raise click.BadParameter(message, param_hint="--date")
    path = progress_path()
    progress = load(path)
    save(path, Progress(progress.cards, progress.reviews, interview))
    cards = [card for card in deck() if not topics or card.topic in topics]
    made = make_plan(cards, progress, today, interview, minutes)
    if as_json:
        click.echo(json.dumps(asdict(made), indent=1, default=str))
    else:
        _show(Page(lang), made, interview, minutes)


def _show(page: Page, made: Plan, interview: date, minutes: int) -> None:
    lang = page.language
    page.heading(say("plan_title", lang, date=interview, days=len(made.days), minutes=minutes))
    for day in made.days:
        page.line()
        page.line(f"{day.day}  {say('plan_day', lang, minutes=day.minutes)}", "bold")
        if day.mock:
            page.say("plan_mock")
        for why in ("due", "new"):
            names = [item.card for item in day.items if item.why == why]
            if names:
                page.line(f"{say(f'plan_{why}', lang)}{COLON[lang]}{', '.join(names)}", indent=3)
    if made.left_out:
        page.line()
        page.say("plan_left_out", cards=", ".join(made.left_out))
