import time
from pathlib import Path

import pytest

import tracing
from tracing.errors import TraceError
from tracing.runs import RunInfo, find_run, lock_run, new_run_folder, runs_folder


@pytest.fixture
def three_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    root = tmp_path / "data/cutaway/runs"
    for name in ("20260101-000000-aaaa", "20260102-000000-bbbb", "20260102-000000-bbcc"):
        (root / name).mkdir(parents=True)
        RunInfo.new(tokens_recorded=False).save(root / name)
        time.sleep(0.002)
    return root


def test_a_run_is_found_by_path_name_start_or_age(three_runs: Path) -> None:
    assert find_run(str(three_runs / "20260101-000000-aaaa")).name.endswith("aaaa")
    assert find_run("20260102-000000-bbbb").name.endswith("bbbb")
    assert find_run("20260101").name.endswith("aaaa")
    assert find_run("last").name.endswith("bbcc")
    assert [path.name[-4:] for path, _ in tracing.list_runs()] == ["aaaa", "bbbb", "bbcc"]


def test_a_run_that_is_not_found_is_answered_with_those_there_are(three_runs: Path) -> None:
    with pytest.raises(TraceError, match=r"several runs start with '20260102': .*bbbb.*bbcc"):
        find_run("20260102")
    with pytest.raises(TraceError, match=r"Known runs: .*aaaa"):
        find_run("nothing")


def test_without_any_run_it_is_said_where_they_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(TraceError, match="no runs yet in"):
        find_run("last")


def test_runs_of_a_checkout_are_kept_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "something"\n')
    assert runs_folder() == tmp_path / "data/cutaway/runs"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "cutaway"\n')
    assert runs_folder() == tmp_path / "traces/runs"
    assert new_run_folder().parent == runs_folder()
    sample = tmp_path / "traces/sample"
    sample.mkdir(parents=True)
    RunInfo.new(tokens_recorded=False).save(sample)
    assert find_run("sample") == sample


def test_what_is_no_run_or_of_another_version_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"it has no run.json"):
        RunInfo.load(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(TraceError, match="cannot be read"):
        RunInfo.load(tmp_path)
    RunInfo(run_id="x", created_ns=0, epoch_offset_ns=0, tokens_recorded=False, format=99).save(
        tmp_path
    )
    with pytest.raises(TraceError, match="format 99"):
        RunInfo.load(tmp_path)


def test_one_at_a_time_may_fill_a_runs_tables(tmp_path: Path) -> None:
    import os

    lock = lock_run(tmp_path)
    assert lock is not None
    assert lock_run(tmp_path) is None
    os.close(lock)
    again = lock_run(tmp_path)
    assert again is not None
    os.close(again)
