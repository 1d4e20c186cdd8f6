import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tracing
from tests.tracing.conftest import RunFolder
from tests.tracing.test_store import busy_run
from tracing.errors import TraceError
from tracing.runs import RunInfo
from workbench.trace_commands import trace

Output = Callable[..., str]
"""Runs a command that must work; returns what it printed."""


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed run in the user's data folder."""
    home = tmp_path_factory.mktemp("home")
    path = home / "cutaway/runs/20260102-030405-abcd"
    path.parent.mkdir(parents=True)
    folder = RunFolder(path)
    busy_run(folder)
    folder.close_writers()
    tracing.open_run(path).close()
    return path


def call(run_dir: Path, monkeypatch: pytest.MonkeyPatch, *args: str) -> Result:
    monkeypatch.chdir(run_dir.parents[3])
    monkeypatch.setenv("XDG_DATA_HOME", str(run_dir.parents[2]))
    monkeypatch.setenv("COLUMNS", "160")
    return CliRunner().invoke(trace, list(args))


@pytest.fixture
def output(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Output:
    def run(*args: str) -> str:
        result = call(run_dir, monkeypatch, *args)
        assert result.exit_code == 0, result.exception
        return result.stdout

    return run


def test_ls_lists_runs_with_their_key_numbers(output: Output) -> None:
    head, line = output("ls").strip().split("\n")
    assert head.split() == [
        *("run", "state", "started", "model", "duration", "requests", "steps", "tokens")
    ]
    assert line.startswith("20260102-030405-abcd  sealed")
    assert line.split()[-2:] == ["20", "52"]
    assert "toy" in line


def test_show_tells_the_run_without_colour_when_piped(output: Output) -> None:
    text = output("show", "last")
    assert "\x1b" not in text
    assert "toy · vllm scheduler, hash cache · 24 blocks of 4 tokens" in text
    assert "1 requests · 20 steps" in text
    assert "n too small" in text
    assert "reached its 3 tokens" in text
    assert "preempted for #2, which needs 2 with 0 free" in text
    assert "cutaway trace show last --step 4" in text
    assert "为 #2 被抢占" in output("show", "2026", "--lang", "zh")


def test_show_tells_a_step(output: Output) -> None:
    text = output("show", "last", "--step", "4")
    assert "needs 5 more blocks, 1 are free; nobody behind it is looked at" in text
    assert "given out" in text
    assert "decodes: 1 token(s)" in text


def test_show_tells_a_request_by_its_label(output: Output) -> None:
    text = output("show", "last", "--request", "#1")
    assert text == output("show", "last", "--request", "1")
    assert text == output("show", "last", "--request", str((1 << 32) + 1))
    assert "the client calls it client-7" in text
    assert "queue" in text
    assert "steps 1-19" in text
    assert "step 4  preempt_last  preempted for #2" in text


def test_what_is_not_there_is_said_with_what_is(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for args, advice in {
        ("show", "last", "--step", "99"): "steps 0 to 19 are recorded",
        ("show", "last", "--request", "99"): "lists them",
        ("show", "other"): "Known runs: 20260102-030405-abcd",
        ("sql", "last", "DROP TABLE step"): "only be read",
    }.items():
        error = call(run_dir, monkeypatch, *args).exception
        assert isinstance(error, TraceError)
        assert advice in str(error)


def test_sql_prints_tables_csv_and_json(output: Output) -> None:
    query = "SELECT step, mode FROM step ORDER BY step LIMIT 2"
    assert output("sql", "last", query).split()[:4] == ["step", "mode", "0", "decode"]
    rows = list(csv.reader(io.StringIO(output("sql", "last", query, "--csv"))))
    assert rows[0] == ["step", "mode"]
    assert len(rows) == 3
    said = json.loads(output("sql", "last", query, "--json"))
    assert [row["step"] for row in said] == [0, 1]


def test_what_a_client_sent_cannot_drive_the_terminal(output: Output) -> None:
    text = output("sql", "last", "SELECT chr(27) || '[31m[bold]x' AS evil")
    assert "\x1b" not in text
    assert "[31m[bold]x" in text


def test_rows_beyond_the_limit_are_announced(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = call(run_dir, monkeypatch, "sql", "last", "FROM range(5)", "--limit", "2")
    assert "only the first 2 rows" in result.stderr
    assert "only" not in result.stdout


def test_an_exported_run_shows_the_same(output: Output, tmp_path: Path) -> None:
    said = output("export", "last", str(tmp_path / "sample"))
    assert "MB" in said
    assert RunInfo.load(tmp_path / "sample").store == "parquet"
    before = output("show", "last").split("\n")[1:-2]
    assert output("show", str(tmp_path / "sample")).split("\n")[1:-2] == before
