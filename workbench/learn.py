"""`cutaway learn`: lessons in the terminal, graded by the learner's own trace.

The engine is never loaded here: an experiment is a program of its own, and everything on the screen
is read from the run that it left.
"""

import json
import sys

import click

from lessons.content import find_lesson, load_lessons
from lessons.errors import LessonError
from lessons.progress import load, progress_path, reset, to_json
from lessons.text import LANGUAGES, Language, say
from tracing.runs import find_run
from workbench.learn_session import Session
from workbench.learn_show import Page


@click.command()
@click.argument("lesson", required=False)
@click.option("--fast", is_flag=True, help="Only predict, run and check.")
@click.option("--read", "only_read", is_flag=True, help="The whole text, without questions.")
@click.option("--check", is_flag=True, help="Check your newest run and your kata again.")
@click.option("--run", "run_name", help="With --check: this run instead of your newest.")
@click.option("--watch", is_flag=True, help="Check the kata whenever you save it.")
@click.option("--model", help="Another model than SmolLM2-135M for the experiment.")
@click.option("--lang", type=click.Choice(LANGUAGES), default="en", help="Language of the text.")
@click.option("--export", "exported", is_flag=True, help="Print your progress as JSON.")
@click.option("--reset", "anew", is_flag=True, help="Begin anew; the old file is kept aside.")
@click.option("--yes", is_flag=True, help="With --reset: do not ask.")
def learn(
    lesson: str | None,
    fast: bool,
    only_read: bool,
    check: bool,
    run_name: str | None,
    watch: bool,
    model: str | None,
    lang: Language,
    exported: bool,
    anew: bool,
    yes: bool,
) -> None:
    """Lessons on a real engine: predict, run, see, explain.

    LESSON is a number or a topic; without it, what there is and how far you are.

    \b
    cutaway learn                 the list
    cutaway learn 12              one lesson
    cutaway learn 12 --watch      its kata, checked on every save
    """
    path, page = progress_path(), Page(lang)
    if yes and not anew:
        raise click.UsageError(say("yes_alone", lang))
    try:
        if exported:
            click.echo(json.dumps(to_json(load(path)), indent=1, ensure_ascii=False))
        elif anew:
            if path.exists() and not yes:
                click.confirm(say("reset_sure", lang), abort=True)
            old = reset(path)
            key = "reset_nothing" if old is None else "reset_done"
            click.echo(say(key, lang, path=old))
        elif lesson is None:
            if fast or only_read or check or watch:
                raise click.UsageError(say("which_lesson", lang))
            page.lessons(load_lessons(), load(path))
        else:
            session = Session(find_lesson(lesson), page, path, _read_line, model)
            if not _go(session, fast, only_read, check, run_name, watch):
                raise SystemExit(1)
    except LessonError as error:
        raise click.ClickException(error.in_(lang)) from error


def _go(
    session: Session, fast: bool, only_read: bool, check: bool, run_name: str | None, watch: bool
) -> bool:
    """What was asked for; False where a check failed."""
    if sum((fast, only_read, check, watch)) > 1:
        raise click.UsageError(say("one_of", session.page.language))
    if run_name is not None and not check:
        raise click.UsageError(say("run_alone", session.page.language))
    if only_read:
        session.read()
        return True
    if check:
        return session.check(None if run_name is None else find_run(run_name))
    if watch:
        return session.watch()
    session.learn(fast=fast)
    return True


def _read_line() -> str | None:
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None
