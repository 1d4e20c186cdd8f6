"""Answers as Parquet files: whatever a question brings back becomes a file that says the same."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tracing.errors import TraceError
from tracing.parquet import distinct, parquet_bytes
from tracing.result import Result


def read(result: Result, folder: Path) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names and rows of the file."""
    path = folder / "rows.parquet"
    path.write_bytes(parquet_bytes(result))
    with duckdb.connect(":memory:") as con:
        found = con.execute(f"FROM read_parquet('{path}')")
        return [column[0] for column in found.description], found.fetchall()


def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    assert distinct(["a", "A", "b"]) == ["a", "A_1", "b"]
    assert distinct(["a", "a", "a_1", "A", "A_1"]) == ["a", "a_2", "a_1", "A_3", "A_1_1"]
    names, rows = read(Result(("step", "STEP", 'a"b'), [(1, 2, 3)]), tmp_path)
    assert (names, rows) == (["step", "STEP_1", 'a"b'], [(1, 2, 3)])


@pytest.mark.parametrize(
    ("value", "read_back"),
    [
        (2**63 - 1, 2**63 - 1),
        (2**63, 2**63),
        (1 - 10**38, 1 - 10**38),
        (10**38, str(10**38)),
        (2**128 - 1, str(2**128 - 1)),
        (-(2**127), str(-(2**127))),
        (True, True),
        ([1, {"a": None}], "[1, {'a': None}]"),
        (None, None),
    ],
)
def test_a_value_keeps_its_kind_or_becomes_text(tmp_path: Path, value: Any, read_back: Any) -> None:
    _, rows = read(Result(("x",), [(value,), (None,)]), tmp_path)
    assert rows == [(read_back,), (None,)]


def test_what_makes_no_file_is_said() -> None:
    with pytest.raises(TraceError, match="no Parquet file"):
        parquet_bytes(Result((), []))
