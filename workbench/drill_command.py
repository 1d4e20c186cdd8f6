"""`cutaway drill`: interview practice in the terminal; what is asked and how it is marked is in `interview`.

drill [TOPIC]     due cards first, then new ones
drill mock        an interview of 45 minutes and a report
drill plan        what to do on each day until a date
drill list, show, agreement, export, reset
"""

import json
import random
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click

from interview import agreement as marker
from interview import spacing
from interview.deck import Card, deck, in_order, make, trace_cards
from interview.drills import KINDS, Drill, Kind
from interview.errors import DrillError
from interview.phrases import fill, say
from interview.progress import Review, load, progress_path, reset, save, to_json
from interview.questions import TOPICS, load_bank
from interview.text import Language
from workbench.drill_group import AskByDefault, json_option, lang_option, seed_option
from workbench.drill_interview import hold_interview
from workbench.drill_plan import plan
from workbench.drill_reader import SecondReader
from workbench.drill_session import Ended, Session, Skipped
from workbench.drill_show import MUTE, Page


@click.group("drill", cls=AskByDefault)
def drill() -> None:
    """Interview practice: numbers, statements, open questions, moments and faults of recorded runs.

    \b
    Examples:
      cutaway drill                          five cards: what is due, then new ones
      cutaway drill memory --kind concept    open questions about KV memory
      cutaway drill --kind numeric --count 8
      cutaway drill --run last               moments of your own run: why did that happen?
      cutaway drill --kind fault             which rule does this engine break?
      cutaway drill plan --date 2026-12-14
      cutaway drill mock --lang zh
    """


@drill.command()
@click.argument("topic", required=False, type=click.Choice(list(TOPICS)))
@click.option("--kind", type=click.Choice(KINDS), help="Only drills of this kind.")
@click.option("--level", type=click.IntRange(1, 3), help="Only drills of this level.")
@click.option("--count", type=click.IntRange(1), default=5, show_default=True)
@click.option("--run", help="Ask about moments of this run: a name, `last`, or a folder.")
@click.option("--seconds", type=click.IntRange(1), help="Time limit per drill; default: by kind.")
@click.option("--second-reader", "url", metavar="URL", help="OpenAI-compatible API, up to /v1.")
@click.option("--model", help="The second reader's model.")
@click.option("--reader-key", envvar="CUTAWAY_READER_KEY", help="Its API key, if it wants one.")
@seed_option
@lang_option
@json_option
def ask(
    topic: str | None,
    kind: Kind | None,
    level: int | None,
    count: int,
    run: str | None,
    seconds: int | None,
    url: str | None,
    model: str | None,
    reader_key: str | None,
    seed: int | None,
    lang: Language,
    as_json: bool,
) -> None:
    """Answer drills: what is due first, then new ones, easy before hard (the default command)."""
    if (url is None) != (model is None):
        raise click.UsageError(say("error_reader_model", lang))
    reader = SecondReader(url, model, reader_key) if url and model else None
    if run is not None and kind not in (None, "trace"):
        raise click.UsageError(say("error_run_kind", lang))
    cards = [
        card
        for card in (deck() if run is None else trace_cards())
        if topic in (None, card.topic) and kind in (None, card.kind) and level in (None, card.level)
    ]
    if not cards and kind == "trace" and run is None:
        raise DrillError(fill("no_sample"))
    if not cards:
        values = {"topics": ", ".join(TOPICS), "kinds": ", ".join(KINDS)}
        raise DrillError(fill("nothing_fits", **values))
    session = Session(Page(lang, stderr=as_json), _read_line, seconds, reader)
    first_seed = _first_seed(seed)
    reviews = _ask_all(session, cards, count, first_seed, run)
    if as_json:
        click.echo(json.dumps({"seed": first_seed, "answers": _answers(reviews)}, indent=1))


def _ask_all(
    session: Session, cards: list[Card], count: int, seed: int, run: str | None
) -> list[Review]:
    """Ask the first of the cards in order; progress is kept after each answer."""
    path = progress_path()
    progress = load(path)
    drills = _make(in_order(cards, progress, datetime.now(UTC)), count, seed, run)
    reviews: list[Review] = []
    for n, drill in enumerate(drills, start=1):
        note = say("question_of", session.page.language, n=n, total=len(drills))
        try:
            review = session.ask(drill, note)
        except Skipped:
            continue
        except Ended:
            break
        reviews.append(review)
        progress = progress.with_review(review)
        save(path, progress)
        session.page.say("next_due", MUTE, date=spacing.due(progress.cards[drill.card]).date())
    if reviews:
        right = round(100 * sum(review.share for review in reviews) / len(reviews))
        session.page.line()
        session.page.say("session_end", "bold", done=len(reviews), right=right)
    return reviews


def _make(cards: list[Card], count: int, seed: int, run: str | None) -> list[Drill]:
    """The first so many drills; a run that lacks moments of a kind is asked about the others.

    Raises DrillError if it has none at all, and TraceError if there is no such run.
    """
    made: list[Drill] = []
    missing: DrillError | None = None
    for card in cards:
        if len(made) == count:
            break
        try:
            made.append(make(card.name, seed + len(made) + 1, run))
        except DrillError as error:
            missing = error
    if missing is not None and not made:
        raise missing
    return made


@drill.command()
@seed_option
@lang_option
@json_option
def mock(seed: int | None, lang: Language, as_json: bool) -> None:
    """An interview of 45 minutes along the ladder, with follow-ups, and a report."""
    path = progress_path()
    session = Session(Page(lang, stderr=as_json), _read_line)
    first_seed = _first_seed(seed)
    reviews, report = hold_interview(session, load(path), path, first_seed)
    if as_json:
        data = {"seed": first_seed, "answers": _answers(reviews), "report": asdict(report)}
        click.echo(json.dumps(data, indent=1))


drill.add_command(plan)


@drill.command("list")
@lang_option
@json_option
def list_cards(lang: Language, as_json: bool) -> None:
    """All cards with the day on which they are due."""
    progress = load(progress_path())
    rows = [(card, progress.cards.get(card.name)) for card in deck()]
    if as_json:
        data = [asdict(card) | {"due": state and state["due"]} for card, state in rows]
        click.echo(json.dumps(data, indent=1, ensure_ascii=False))
        return
    page = Page(lang)
    for card, state in rows:
        when = spacing.due(state).date().isoformat() if state else "–"
        page.line(f"{when:<11} {card.level}  {card.name:<24} {card.title.in_(lang)}")


@drill.command()
@click.argument("question", type=click.Choice(list(load_bank())))
@lang_option
def show(question: str, lang: Language) -> None:
    """A question with its three answers, key points, misconceptions, follow-ups and sources."""
    Page(lang).sheet(load_bank()[question])


@drill.command()
@click.option("--differences", is_flag=True, help="Also where they differ, in the tuning set only.")
@lang_option
@json_option
def agreement(differences: bool, lang: Language, as_json: bool) -> None:
    """How well the marker agrees with labelled answers: those it was tuned on, and fresh ones."""
    tuning = marker.load_labelled("tuning")
    fresh = marker.load_labelled("fresh")
    measured = {"tuning": marker.measure(tuning), "fresh": marker.measure(fresh)}
    if as_json:
        click.echo(json.dumps({part: asdict(m) for part, m in measured.items()}, indent=1))
        return
    page = Page(lang)
    page.heading(say("agreement_title", lang))
    for part, m in measured.items():
        page.line()
        page.say(f"agreement_{part}", "bold")
        for name, value in asdict(m).items():
            shown = f"{value:.3f}" if isinstance(value, float) else str(value)
            page.line(f"{name:<24} {shown}")
    for difference in marker.differences(tuning) if differences else ():
        sign = "+" if difference.heard else "-"
        page.line(f"{sign} {difference.answer_id:<8} {difference.id}")


@drill.command()
def export() -> None:
    """Progress as JSON on stdout."""
    click.echo(json.dumps(to_json(load(progress_path())), indent=1, ensure_ascii=False))


@drill.command("reset")
@click.option("--yes", is_flag=True, help="Do not ask.")
@lang_option
def reset_progress(yes: bool, lang: Language) -> None:
    """Begin anew; the old progress is kept beside as drill.json.old."""
    path = progress_path()
    if not yes:
        click.confirm(say("reset_prompt", lang), abort=True)
    old = reset(path)
    click.echo(say("reset_done", lang, old=old) if old else say("reset_none", lang, path=path))


def _first_seed(seed: int | None) -> int:
    return random.SystemRandom().randrange(2**31) if seed is None else seed


def _read_line() -> str | None:
    line = sys.stdin.readline()
    return line.rstrip("\r\n") if line else None


def _answers(reviews: list[Review]) -> list[dict[str, Any]]:
    return [asdict(review) | {"at": review.at.isoformat()} for review in reviews]
