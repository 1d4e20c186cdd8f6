"""Where free questions are put: a stop counts whenever it comes, and files are made of any answer."""

import asyncio
from pathlib import Path
from typing import Any

import duckdb
import pytest
from starlette.testclient import TestClient

from tests.workbench.web.conftest import RUN
from tracing.clerk import Clerk
from tracing.errors import PutAside
from tracing.result import Result
from workbench.web import desk
from workbench.web.pages.sql import MAX_CELL, cut

ENDLESS = "SELECT count(*) FROM range(1000000000000) a, range(1000) b"


def test_a_stop_between_the_desk_and_its_clerk_is_not_lost(
    environment: None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(Clerk):
        """Stopped when it has the question, and has not asked it yet."""

        def ask(self, *words: Any, **named: Any) -> Result:
            if words[1] == ENDLESS:
                made.stop("me")
            return super().ask(*words, **named)

    monkeypatch.setattr(desk, "Clerk", Slow)
    monkeypatch.setattr(desk, "NUM_CLERKS", 1)
    made, run_dir = desk.Desk(), home / "cutaway/runs" / RUN
    with pytest.raises(PutAside):
        asyncio.run(made.ask(run_dir, ENDLESS, asker="me"))
    assert asyncio.run(made.ask(run_dir, "SELECT 42", asker="me")).rows == [(42,)]


@pytest.mark.parametrize("sql", ["select 1 as a, 2 as A", f"select {2**128 - 1}::uhugeint as x"])
def test_any_answer_makes_a_file(app: Any, tmp_path: Path, sql: str) -> None:
    client = TestClient(app, base_url="http://127.0.0.1:8050")
    asked = {"sql": sql, "format": "parquet"}
    answer = client.post(f"/data/runs/{RUN}/download", json=asked)
    assert answer.status_code == 200, answer.text
    (tmp_path / "rows.parquet").write_bytes(answer.content)
    with duckdb.connect(":memory:") as con:
        assert len(con.execute(f"FROM read_parquet('{tmp_path}/rows.parquet')").fetchall()) == 1


def test_a_grid_shows_the_beginning_of_a_long_text_and_numbers_as_they_are() -> None:
    row = (2**40, 0.5, None, True, "ab", "ab" * MAX_CELL, ["ab"] * MAX_CELL)
    (shown,) = cut(Result(tuple("abcdefg"), [row])).rows
    assert shown[:5] == row[:5]
    for text in shown[5:]:
        assert len(text) == MAX_CELL + 1
        assert text.endswith("…")
