"""Rows on their way to the tables of `schema.sql`: tuples in the order of a table's columns.

Kernel launches come by the thousand and are numbers throughout, so they travel as columns instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracing.record import NULL

Row = tuple[Any, ...]
Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KernelChunk:
    """The launches of one forward pass; the arrays have one element per launch."""

    engine_id: int | None
    proc_id: int
    step: int
    first_seq: int
    num_tokens: int
    clock: str
    start_ns: Int64s
    dur_ns: Int64s
    kernel_id: Int64s
    layer: Int64s


@dataclass(slots=True)
class Rows:
    """Rows by table name, in the order in which they came."""

    tables: dict[str, list[Row]] = field(default_factory=dict)
    kernels: list[KernelChunk] = field(default_factory=list)

    def add(self, table: str, row: Row) -> None:
        """Append one row."""
        self.tables.setdefault(table, []).append(row)

    def extend(self, other: "Rows") -> None:
        """Append another's rows."""
        for table, rows in other.tables.items():
            self.tables.setdefault(table, []).extend(rows)
        self.kernels += other.kernels

    def take(self) -> "Rows":
        """Hand over what has gathered and begin anew."""
        taken = Rows(self.tables, self.kernels)
        self.tables, self.kernels = {}, []
        return taken

    def __len__(self) -> int:
        launches = sum(len(chunk.start_ns) for chunk in self.kernels)
        return launches + sum(len(rows) for rows in self.tables.values())


def kernel_columns(chunks: Sequence[KernelChunk]) -> dict[str, NDArray[Any]]:
    """Launches as the columns of table kernel, one element per launch."""
    lengths = [len(chunk.start_ns) for chunk in chunks]

    def spread(values: list[Any]) -> NDArray[Any]:
        return np.repeat(np.array(values), lengths)

    return {
        "engine_id": spread([chunk.engine_id for chunk in chunks]),
        "proc_id": spread([chunk.proc_id for chunk in chunks]),
        "step": spread([chunk.step for chunk in chunks]),
        "seq": np.concatenate(
            [chunk.first_seq + np.arange(n) for chunk, n in zip(chunks, lengths, strict=True)]
        ),
        "start_ns": np.concatenate([chunk.start_ns for chunk in chunks]),
        "dur_ns": np.concatenate([chunk.dur_ns for chunk in chunks]),
        "kernel_id": np.concatenate([chunk.kernel_id for chunk in chunks]),
        "layer": np.concatenate([chunk.layer for chunk in chunks]),
        "num_tokens": spread([chunk.num_tokens for chunk in chunks]),
        "clock": spread([chunk.clock for chunk in chunks]).astype(object),
    }


def null(word: int) -> int | None:
    """A word of a record as a value: None where it stands for NULL."""
    return None if word == NULL else word


def unsigned(word: int) -> int | None:
    """A 64-bit id that travelled as the signed number of the same bits."""
    return None if word == NULL else word & (2**64 - 1)


def millionths(word: int) -> float | None:
    """A fraction that travelled in millionths."""
    return None if word == NULL else word / 1e6
