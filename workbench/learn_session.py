"""One lesson, from the first question to the last check.

    predict -> run -> see -> explain -> kata -> check          the fast track: predict -> run -> check

Answers come line by line from anywhere, so a pipe is as good as a person; where the input ends, the
lesson ends, and what was done so far is noted. Predictions count only together with a run that can
judge them.

Invariant: nothing that a question asks is on the screen before it is asked, so the picture, which
shows it all, comes after the run.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tracing
from lessons.content import Lesson, Prediction
from lessons.grading import (
    LETTERS,
    Sight,
    judge,
    look,
    plain_number,
    read_answer,
    read_confidence,
    run_checks,
)
from lessons.picture import load_picture
from lessons.progress import Answer, LessonProgress, load, now, save
from lessons.runner import check_kata, kata_path, run_experiment
from lessons.text import say
from tracing.reader import Run
from tracing.runs import RUN_FILE, new_run_folder
from workbench.learn_show import Page

WATCH_SECONDS = 0.3


class Stopped(Exception):
    """The learner wants to stop, or the input has ended."""


@dataclass(frozen=True, slots=True)
class Session:
    """A lesson in front of a learner."""

    lesson: Lesson
    page: Page
    path: Path
    """Of the progress file."""
    read_line: Callable[[], str | None]
    """The next line without its end; None when there are no more."""
    model: str | None = None
    """Instead of the lesson's own."""

    # -- whole ways through ------------------------------------------------------------------------

    def learn(self, *, fast: bool) -> bool:
        """The lesson, or its fast track; True if it is done. Raises LessonError, TraceError."""
        try:
            return self._learn(fast)
        except Stopped:
            self.page.line()
            noted = self._mine().answers
            self.page.say("stopped_noted" if noted else "stopped", "bright_black")
            return False

    def check(self, run_dir: Path | None) -> bool:
        """Claims on a run (None: the learner's newest), and the kata if it was begun; True if all hold."""
        if run_dir is None and (run_dir := self._own_run()) is None:
            return False
        holds = self._check(run_dir)
        if not self._kata_is_untouched():
            holds &= self._check_kata(kata_path(self.lesson))
        return holds

    def watch(self) -> bool:
        """Check the kata now and whenever its file is saved, until it passes."""
        path = kata_path(self.lesson)
        self.page.heading("kata")
        self.page.prose(self.lesson.prose[self.page.language].kata)
        self.page.say("watching", "bright_black", path=path)
        seen: float | None = None
        while True:
            changed = path.stat().st_mtime if path.exists() else seen
            if changed != seen:
                seen = changed
                if self._check_kata(path):
                    return True
            time.sleep(WATCH_SECONDS)

    def read(self) -> None:
        """Everything that can be read, and the learner's own run if there is one: no questions."""
        page, lesson, mine = self.page, self.lesson, self._mine()
        page.opening(lesson, mine)
        page.idea(lesson)
        if mine.run is not None and (Path(mine.run) / RUN_FILE).exists():
            run = tracing.open_run(Path(mine.run))
            page.sights(self._sights(run), Path(mine.run).name)
            run.close()
        else:
            page.heading("see")
        page.picture(lesson, load_picture(lesson))
        page.explained(lesson)
        page.heading("kata")
        page.prose(lesson.prose[page.language].kata)
        page.heading("follow_up")
        for follow_up in lesson.follow_ups:
            page.line(follow_up.ask.in_(page.language), "bold")
            page.prose(follow_up.answer.in_(page.language))
            page.line()
        page.upstream(lesson)

    # -- parts -------------------------------------------------------------------------------------

    def _learn(self, fast: bool) -> bool:
        page, lesson = self.page, self.lesson
        page.opening(lesson, self._mine())
        if not fast:
            page.idea(lesson)
        answers = self._predict()
        run_dir = self._run()
        run = tracing.open_run(run_dir)
        try:
            right = self._judge(answers, run, run_dir)
            sights = self._sights(run)
        finally:
            run.close()
        if fast and right:
            done = self._check(run_dir)
            if done:
                page.say("fast_done", "bright_black", n=lesson.number)
            return done
        if fast:
            page.say("fast_missed", "bright_black")
        page.sights(sights, run_dir.name)
        page.picture(lesson, load_picture(lesson))
        page.explained(lesson)
        if not fast:
            self._kata()
        done = self._check(run_dir)
        if not fast:
            self._follow_ups()
            page.upstream(lesson)
        return done

    def _predict(self) -> list[tuple[Prediction, float | str, float]]:
        """Questions with answer and confidence."""
        answers: list[tuple[Prediction, float | str, float]] = []
        predictions = self.lesson.predictions
        for n, prediction in enumerate(predictions, 1):
            self.page.question(prediction, n, len(predictions))
            letters = f"a-{LETTERS[len(prediction.options) - 1]}"
            key = "ask_option" if prediction.options else "ask_number"
            wanted = say(key, self.page.language, letters=letters)
            value = self._ask(wanted, partial(read_answer, prediction))
            answers.append((prediction, value, self._confidence()))
        return answers

    def _confidence(self) -> float:
        """How sure, 0 to 1. A number below one percent is asked again: 0.7 may well mean 70."""
        wanted = say("ask_sure", self.page.language)
        percent = self._ask(wanted, read_confidence)
        while 0 < float(percent) < 1:
            meant = plain_number(round(100 * float(percent), 2))
            self.page.say("sure_or_share", said=percent, meant=meant)
            percent = self._ask(wanted, read_confidence)
        return float(percent) / 100

    def _run(self) -> Path:
        """Run the experiment into a new run."""
        self.page.heading("run")
        self.page.say("ask_run", "bright_black", seconds=self.lesson.seconds)
        if self._line().lower() == "s":
            raise Stopped
        run_dir = new_run_folder()
        with self.page.console.status(say("running", self.page.language)):
            run_experiment(self.lesson, run_dir, model=self.model)
        self.page.say("ran", "bright_black", name=run_dir.name)
        return run_dir

    def _judge(
        self, given: list[tuple[Prediction, float | str, float]], run: Run, run_dir: Path
    ) -> bool:
        """Hold predictions against the run and note them; True if all were right."""
        answers = []
        for prediction, value, sure in given:
            verdict = judge(prediction, value, run)
            answer = Answer(prediction.id, value, sure, verdict.right, now())
            self.page.verdict(prediction, answer, verdict)
            answers.append(answer)
        progress = load(self.path)
        save(self.path, progress.with_answers(self.lesson.number, answers, run_dir))
        return all(answer.right for answer in answers)

    def _sights(self, run: Run) -> list[Sight | None]:
        return [look(stop, run, self.page.language) for stop in self.lesson.stops]

    def _kata(self) -> None:
        """Let the learner write, and check on Enter, until it passes or is skipped."""
        path = kata_path(self.lesson)
        self.page.heading("kata")
        self.page.prose(self.lesson.prose[self.page.language].kata)
        self.page.say("kata_where", path=path)
        while True:
            self.page.say("ask_kata", "bright_black")
            if self._line().lower() == "s" or self._check_kata(path):
                return

    def _check_kata(self, path: Path) -> bool:
        result = check_kata(self.lesson, path, self.page.language)
        self.page.marked(result.passed, result.said, "" if result.passed else "bold")
        if result.printed:
            self.page.printed(result.printed)
        if result.passed:
            save(self.path, load(self.path).with_kata(self.lesson.number))
        return result.passed

    def _kata_is_untouched(self) -> bool:
        stub = (self.lesson.folder / "kata.py").read_text(encoding="utf-8")
        return kata_path(self.lesson).read_text(encoding="utf-8") == stub

    def _check(self, run_dir: Path) -> bool:
        run = tracing.open_run(run_dir)
        try:
            outcomes = run_checks(self.lesson, run)
        finally:
            run.close()
        self.page.outcomes(outcomes)
        holds = all(outcome.holds for outcome in outcomes)
        own = self._mine().run
        if holds and own is not None and Path(own) == run_dir:
            save(self.path, load(self.path).with_check(self.lesson.number))
        return holds

    def _follow_ups(self) -> None:
        self.page.heading("follow_up")
        for follow_up in self.lesson.follow_ups:
            self.page.line(follow_up.ask.in_(self.page.language), "bold")
            self.page.say("ask_answer", "bright_black")
            self._line()
            self.page.prose(follow_up.answer.in_(self.page.language))
            self.page.line()

    # -- the learner -------------------------------------------------------------------------------

    def _mine(self) -> LessonProgress:
        return load(self.path).of(self.lesson.number)

    def _own_run(self) -> Path | None:
        """The newest run of the lesson; says so if there is none any more."""
        run = self._mine().run
        if run is None:
            self.page.say("no_run", n=self.lesson.number)
            return None
        if not (Path(run) / RUN_FILE).exists():
            self.page.say("run_gone", name=Path(run).name, n=self.lesson.number)
            return None
        return Path(run)

    def _ask(self, wanted: str, understand: Callable[[str], float | str | None]) -> float | str:
        self.page.line(wanted, "bright_black")
        understood = understand(self._line())
        while understood is None:
            self.page.say("not_understood", wanted=wanted)
            understood = understand(self._line())
        return understood

    def _line(self) -> str:
        line = self.read_line()
        if line is None:
            raise Stopped
        return line.strip()
