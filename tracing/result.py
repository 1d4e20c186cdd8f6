"""What a query brings back, the same from a store and over HTTP."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """Columns and rows; `truncated` if there was more than the limit allowed."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool = False

    def dicts(self) -> list[dict[str, Any]]:
        """Rows as dictionaries by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON: what it has no word for (NaN, infinity) becomes null, dates become text."""
        rows = [[_plain(value) for value in row] for row in self.rows]
        return {"columns": list(self.columns), "rows": rows, "truncated": self.truncated}

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> "Result":
        """The inverse of `to_json`."""
        rows = [tuple(row) for row in said["rows"]]
        return cls(tuple(said["columns"]), rows, said["truncated"])


def _plain(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case _:
            return str(value)
