import json
import shlex
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interview.deck import deck, make
from interview.drills import LETTERS, Choice, Number
from interview.errors import DrillError
from interview.mock import make_stages
from interview.progress import Progress, load
from interview.questions import load_bank
from tracing.errors import TraceError
from workbench.drill_command import drill
from workbench.drill_interview import hold_interview
from workbench.drill_session import Session
from workbench.drill_show import Page

GOOD = f"{load_bank()['q23'].medium.en}\n{load_bank()['q23'].deep.en}".replace("\n\n", "\n")


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("CUTAWAY_HOME", str(tmp_path))
    return tmp_path


def run(command: str, answers: str = "") -> Result:
    args = shlex.split(command)
    done = CliRunner().invoke(drill, args, input=answers, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def right(card: str, seed: int) -> str:
    """The right answer to type."""
    answer = make(card, seed).answer
    if isinstance(answer, Number):
        return repr(answer.value)
    assert isinstance(answer, Choice)
    return LETTERS[answer.right]


def test_a_number_is_asked_judged_and_derived(home):
    shown = run("capacity --kind numeric --seed 3", answers=right("numeric/fleet", 4)).output
    assert "✓ right" in shown
    assert "How it comes about" in shown
    assert "1 answered, 100 %" in shown
    assert load(home / "drill.json").reviews[0].card == "numeric/fleet"


def test_a_wrong_number_shows_what_is_right_in_chinese(home):
    args = "capacity --kind numeric --seed 3 --lang zh"
    shown = run(args, answers="no\n0.5\n").output
    assert "没有读到数字" in shown
    assert f"✕ 不对，应为 {float(right('numeric/fleet', 4)):g}" in shown
    assert "推导" in shown
    assert load(home / "drill.json").reviews[0].share == 0


def test_a_choice_says_why_the_tempting_one_is_wrong(home):
    choice = make("choice/q23", 8).answer
    assert isinstance(choice, Choice)
    wrong = (choice.right + 1) % len(choice.options)
    args = "batching --kind choice --count 1 --seed 7"
    shown = " ".join(run(args, answers=f"z\n{LETTERS[wrong]}\n").output.split())
    assert f"✕ not so; it is {LETTERS[choice.right]}" in shown
    assert choice.replies[wrong].en in shown


def test_a_moment_of_a_run_is_asked_and_shown(home):
    args = "--run traces/office --count 2 --seed 3"
    first = make("trace/budget", 4)
    shown = run(args, answers=f"{right('trace/budget', 4)}\n:quit\n").output
    assert "✓ right" in shown
    assert "What the run says" in shown
    assert all(line in shown for line in (*first.picture, *first.proof))
    assert f"cutaway trace show traces/office --step {first.moment.step}" in shown
    reviews = load(home / "drill.json").reviews
    assert [review.card for review in reviews] == ["trace/budget"]
    again = run("--kind trace --count 1 --seed 3 --lang zh", answers=":quit\n").output
    assert "读 trace" in again
    assert "token 预算" not in again, "the card is not due, another one comes first"


def test_a_fault_is_asked_and_proved(home):
    drill_ = make("fault/amber", 3)
    shown = run("--kind fault --count 1 --seed 2", answers=f"{right('fault/amber', 3)}\n").output
    assert "✓ right" in shown
    assert "steps_without" in shown.split("What the run says")[1]
    step = drill_.moment.step
    assert f"cutaway trace show traces/faults/amber --step {step}" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("args", "error"),
    [("--run nosuch", TraceError), ("--run traces/office --kind numeric", None)],
)
def test_a_run_that_cannot_be_asked_about_is_said(home, args, error):
    done = CliRunner().invoke(drill, args.split())
    if error is None:
        assert done.exit_code == 2
    else:
        assert isinstance(done.exception, error)


def test_without_a_sample_a_run_must_be_named(home, monkeypatch, tmp_path):
    monkeypatch.setattr("interview.traced.runs.TRACES", tmp_path)
    done = CliRunner().invoke(drill, ["--kind", "trace"])
    assert isinstance(done.exception, DrillError)
    assert "--run" in str(done.exception)


def test_an_open_answer_is_marked_point_by_point(home):
    args = "batching --kind concept --count 1"
    shown = run(args, answers=f"{GOOD}\n\n\n").output
    assert "✓" in shown
    assert "Marks of 4: mechanism 4" in shown
    assert "Follow-up" in shown
    assert "vLLM 0.33.0, SGLang 0.5.23" in shown
    review = load(home / "drill.json").reviews[0]
    assert review.card == "concept/q23"
    assert review.share == review.machine_share == 1


def test_the_learner_corrects_what_was_heard(home):
    args = "batching --kind concept --count 1"
    run(args, answers="It is slow because of many things.\n\n1, 2 3 99 x\n")
    review = load(home / "drill.json").reviews[0]
    assert review.machine_share == 0
    assert review.scores["mechanism"] == 4
    assert review.share == 0.2
    run("reset --yes")
    run(args, answers=f"{GOOD}\n\n-1\n")
    review = load(home / "drill.json").reviews[0]
    assert review.scores["mechanism"] == 3
    assert review.machine_share == 1


def test_the_learner_may_strike_a_misconception(home):
    args = "memory --kind concept --count 1"
    answer = "A block table says where each block lies. Paging makes attention faster."
    shown = run(args, answers=f"{answer}\n\n\n").output
    assert "a ✕ Paging makes attention faster" in shown
    assert "“paging makes attention faster.”" in shown
    accused = load(home / "drill.json").reviews[0]
    assert accused.scores["mechanism"] == 0
    run("reset --yes")
    run(args, answers=f"{answer}\n\n-a\n")
    struck = load(home / "drill.json").reviews[0]
    assert struck.scores["mechanism"] == 1
    assert struck.machine_share == accused.share < struck.share


def test_misconceptions_are_answered(home):
    args = "memory --kind concept --count 1 --lang zh"
    shown = run(args, answers="分页让注意力计算更快,所以延迟低。\n\n\n").output
    assert "听到的误解" in shown
    assert load_bank()["q02"].mistakes[0].reply.zh[:12] in shown


def test_skipped_and_unanswered_drills_leave_no_trace(home):
    run("--kind numeric --count 3", answers=":skip\n:quit\n")
    assert not (home / "drill.json").exists()
    run("--kind concept --count 2", answers="")
    assert not (home / "drill.json").exists()


def test_commands_may_be_typed_with_a_wide_colon(home):
    run("--kind numeric --count 3", answers="：skip\n：quit\n")
    assert not (home / "drill.json").exists()


def test_what_is_due_is_asked_again_and_what_is_known_waits(home):
    run("--kind numeric --count 1 --seed 1", answers="0.001\n")
    first = load(home / "drill.json").reviews[0].card
    run("--kind numeric --count 1 --seed 1", answers="0.001\n")
    assert load(home / "drill.json").reviews[1].card != first


def test_results_are_json_on_stdout_and_questions_on_stderr(home):
    done = run("capacity --kind numeric --seed 3 --json", answers=right("numeric/fleet", 4))
    data = json.loads(done.stdout)
    assert data["seed"] == 3
    assert data["answers"][0]["card"] == "numeric/fleet"
    assert data["answers"][0]["share"] == 1
    assert "GPUs for a peak" in done.stderr


def test_a_limit_that_was_passed_is_said_and_kept():
    times = iter([0.0, 95.0])
    session = Session(Page("en"), iter(["0.5"]).__next__, 60, clock=lambda: next(times))
    review = session.ask(make("numeric/fleet", 4))
    assert review.late
    assert review.seconds == 95


def test_nothing_fits_is_said_with_what_there_is(home):
    done = CliRunner().invoke(drill, ["parallelism", "--kind", "concept"])
    assert isinstance(done.exception, DrillError)
    assert "topics are" in str(done.exception)


@pytest.mark.parametrize("args", [["nosuch"], ["--level", "9"], ["--kind", "x"], ["--model", "m"]])
def test_options_that_cannot_work_are_refused(home, args):
    assert CliRunner().invoke(drill, args).exit_code == 2


def test_damaged_progress_stops_the_drill(home):
    (home / "drill.json").write_text("{")
    done = CliRunner().invoke(drill, ["--count", "1"], input="1\n")
    assert isinstance(done.exception, DrillError)
    assert "drill reset" in str(done.exception)
    assert len(list(home.glob("drill.json.damaged-*"))) == 1


@pytest.mark.parametrize("lang", ["--lang zh", "--lang=zh"])
def test_errors_are_said_in_chinese_when_asked_for(home, lang):
    (home / "drill.json").write_text("{")
    done = CliRunner().invoke(drill, [*lang.split(), "--count", "1"], input="1\n")
    assert isinstance(done.exception, DrillError)
    assert "已损坏" in str(done.exception)
    done = CliRunner().invoke(drill, ["parallelism", "--kind", "concept", *lang.split()])
    assert "没有符合的题" in str(done.exception)
    done = CliRunner().invoke(drill, ["plan", "--date", "2020-01-01", *lang.split()])
    assert "不在今天" in done.output


def in_days(days: int) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).date().isoformat()


def test_a_plan_is_made_and_the_date_kept(home):
    day = in_days(20)
    done = run(f"plan --date {day} --topic memory --json")
    assert load(home / "drill.json").interview.isoformat() == day
    days = json.loads(done.stdout)["days"]
    assert {item["card"] for day in days for item in day["items"]} == {
        *("concept/q02", "concept/q24", "choice/q02", "choice/q24", "numeric/kv"),
        *("trace/evicted", "trace/victim"),
    }


@pytest.mark.parametrize("day", ["2020-01-01", "2999-01-01", "soon"])
def test_a_date_that_cannot_be_planned_for_is_refused(home, day):
    assert CliRunner().invoke(drill, ["plan", "--date", day]).exit_code == 2
    assert not (home / "drill.json").exists()


def test_a_plan_is_shown_in_both_languages(home):
    day = in_days(9)
    english, chinese = (
        run(f"plan --date {day}").output,
        run(f"plan --date {day} --lang zh").output,
    )
    assert f"Plan to {day}: 9 days" in english
    assert english.count("mock interview") == 2
    assert "模拟面试" in chinese


@pytest.mark.parametrize("days", [1, 2])
def test_a_plan_for_tomorrow_holds_cards(home, days):
    shown = run(f"plan --date {in_days(days)}").output
    assert "new: " in shown
    assert "mock interview" not in shown
    run("capacity --kind numeric --seed 3", answers="1")
    assert "new: " in run(f"plan --date {in_days(days)}").output


def test_a_mock_interview_asks_on_and_reports(home):
    open_answer = (
        "It runs a closed batch until the longest answer ends, I read that in the source.\n\n"
    )
    answers = ""
    asked = 0
    for stage in make_stages(deck(), Progress(), 5):
        for card in stage.cards:
            asked += 1
            number = right(card.name, 5 + asked) if card.kind != "concept" else None
            # answer, answer to the follow-up, correction
            answers += f"{number}\n" if number else f"{open_answer}In vLLM 0.33.0.\n\n\n"
    done = run("mock --seed 5 --json", answers=answers)
    data = json.loads(done.stdout)
    assert len(data["answers"]) == 9
    known = [a["share"] for a in data["answers"] if a["card"].startswith(("numeric/", "trace/"))]
    assert known == [1, 1]
    assert data["report"]["strong"] == ["version"]
    assert "boundary" in data["report"]["weak"]
    assert all(command.startswith("cutaway ") for command in data["report"]["review"])
    assert "Follow-up" in done.stderr
    assert len(load(home / "drill.json").reviews) == 9


def test_a_mock_interview_ends_with_its_time(home, capsys):
    times = iter(range(0, 10**7, 1000))
    lines = iter(["It runs a closed batch.", "", "", ""] * 20)
    session = Session(Page("zh"), lambda: next(lines), clock=lambda: float(next(times)))
    reviews, _ = hold_interview(session, Progress(), home / "drill.json", 1)
    assert 1 <= len(reviews) < 8
    assert "时间到" in capsys.readouterr().out


def test_an_interview_that_is_skipped_whole_has_everything_to_review(home):
    report = json.loads(run("mock --seed 5 --json", answers=":skip\n" * 9).stdout)["report"]
    assert len(report["weak_cards"]) == 9
    assert report["review"]
    assert not (home / "drill.json").exists()


def test_an_interview_left_early_still_reports(home):
    shown = run("mock", answers=":quit\n").output
    assert "Report" in shown
    assert "strong: none" in shown


def test_cards_are_listed_shown_and_exported(home):
    cards = json.loads(run("list --json").stdout)
    assert {"name", "kind", "topic", "due"} <= set(cards[0])
    assert "numeric/kv" in run("list --lang zh").output
    sheet = run("show q24 --lang zh").output
    assert "tests/golden/vllm/t16_full_hit_aligned" in sheet
    assert "走一遍请求 R" in sheet
    run("capacity --kind numeric --seed 3", answers="1")
    assert json.loads(run("export").stdout)["reviews"][0]["card"] == "numeric/fleet"


def test_reset_asks_first_and_keeps_the_old_file(home):
    assert "no progress" in run("reset --yes").output
    run("capacity --kind numeric --seed 3", answers="1")
    asked = CliRunner().invoke(drill, ["reset"], input="n\n")
    assert asked.exit_code == 1
    assert "Begin anew?" in asked.output
    asked = CliRunner().invoke(drill, ["reset", "--lang", "zh"], input="n\n")
    assert asked.exit_code == 1
    assert "从头开始？" in asked.output
    assert (home / "drill.json").exists()
    assert "drill.json.old" in run("reset --yes").output
    assert not (home / "drill.json").exists()


def test_agreement_is_reported_for_both_sets(home):
    data = json.loads(run("agreement --json").stdout)
    assert data["tuning"]["answers"] == 118
    assert data["fresh"]["answers"] >= 40
    shown = run("agreement --differences").output
    assert "fresh set" in shown
    assert "-fresh" not in shown, "where it differs on the fresh set is not for looking"
    assert "+ q07-d    radix" in shown


class Reader(BaseHTTPRequestHandler):
    """Answers every request with the server's `said`, or `raw` if there is one; keeps what it was asked."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers.get("Authorization"), body))  # type: ignore[attr-defined]  # set below
        content = self.server.said  # type: ignore[attr-defined]  # set below
        reply = json.dumps({"choices": [{"message": {"content": content}}]}).encode()
        reply = self.server.raw or reply  # type: ignore[attr-defined]  # set below
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Reader)
    made.asked, made.said = [], '{"points": [1, 4, 77]}'  # type: ignore[attr-defined]  # for Reader
    made.raw = b""  # type: ignore[attr-defined]  # for Reader
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def ask_with_reader(server: ThreadingHTTPServer, correction: str) -> str:
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    args = f"batching --kind concept --count 1 --second-reader {url} --model m"
    answer = "There is no scheduler that decides at each step who runs.\n\n"
    return run(f"{args} --reader-key k", answers=f"{answer}{correction}\n").output


def test_a_second_reader_is_heard_but_decides_nothing(home, server):
    shown = ask_with_reader(server, "")
    assert "The second reader also heard: 1, 4." in shown
    assert "The second reader did not hear: 3." in shown
    review = load(home / "drill.json").reviews[0]
    assert review.share == review.machine_share
    assert review.scores["boundary"] == 0
    path, key, body = server.asked[0]
    assert (path, key, body["model"]) == ("/v1/chat/completions", "Bearer k", "m")
    assert "who runs" in body["messages"][1]["content"]


def test_the_learner_may_follow_the_second_reader(home, server):
    ask_with_reader(server, "1 4 -3")
    scores = load(home / "drill.json").reviews[0].scores
    assert (scores["mechanism"], scores["boundary"]) == (1, 4)


@pytest.mark.parametrize("said", ["I would say 3 of 4.", '{"points": "all"}', "[1]"])
def test_a_reader_that_answers_out_of_form_changes_nothing(home, server, said):
    server.said = said
    assert "did not answer in JSON" in ask_with_reader(server, "")
    assert len(load(home / "drill.json").reviews) == 1


@pytest.mark.parametrize(
    "raw",
    [b"[]", b'{"choices": [{"message": null}]}', b'{"choices": {}}', b"null", b"no json", b"7"],
)
def test_a_reader_that_sends_no_completion_keeps_the_answer(home, server, raw):
    server.raw = raw
    assert "sent no chat completion" in " ".join(ask_with_reader(server, "").split())
    review = load(home / "drill.json").reviews[0]
    assert review.share == review.machine_share > 0


def test_a_reader_that_cannot_be_reached_changes_nothing(home, server):
    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    args = f"batching --kind concept --count 1 --second-reader {url} --model m"
    shown = run(args, answers="It runs one batch.\n\n\n").output
    assert "cannot be asked" in shown
    assert len(load(home / "drill.json").reviews) == 1
