"""A question about a moment of a run, with the run at hand: what all kinds of trace drills share.

The idea: a kind of drill is one function. It looks for moments of its kind, and for one of them states what
was the case, and other things that could have been and were not, each checked against the same trace. Nothing
is asked where fewer than two wrong statements can be had, or where two causes were at work at once.

Invariant: exactly one statement is true of the moment; the seed decides the moment.
Source: none.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from interview.drills import Moment
from interview.phrases import fill
from interview.text import Text
from tracing.reader import Run

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """One option, and what to say when it was chosen (of the right one: always)."""

    text: Text
    reply: Text


@dataclass(frozen=True, slots=True)
class Asked:
    """A question before its options are shuffled."""

    question: Text
    right: Statement
    wrong: tuple[Statement, ...]
    moment: Moment
    picture: tuple[str, ...] = ()
    """Shown with the question: facts that do not give the answer away."""
    proof: tuple[str, ...] = ()
    """Shown with the verdict: what the run says."""


@dataclass(frozen=True, slots=True)
class Source:
    """An open run, under the name that commands know it by."""

    name: str
    run: Run
    random: random.Random

    def rows(self, sql: str) -> list[Row]:
        """Rows of one SELECT. Raises TraceError."""
        return self.run.sql(sql).dicts()

    def shuffled(self, sql: str) -> list[Row]:
        """The same in an order that the seed decides."""
        rows = self.rows(sql)
        self.random.shuffle(rows)
        return rows

    def moment(self, row: Row) -> Moment:
        """The moment of a row with engine_id, step and perhaps request_id."""
        return Moment(self.name, row["engine_id"], row["step"], row.get("request_id"))

    def step_rows(self, engine: int, step: int) -> tuple[str, ...]:
        """Who was in a step, as lines that name it."""
        return table(
            self.rows(
                f"""SELECT step, label(request_id) AS request, v.name AS reason, num_computed_tokens,
                           num_scheduled_tokens, num_recomputed_tokens
                    FROM step_request JOIN reason v USING (code)
                    WHERE engine_id = {engine} AND step = {step} ORDER BY row LIMIT 12"""
            )
        )


def because(row: Row) -> Text:
    """The catalogue's own sentence of a row with columns en and zh."""
    return Text(row["en"], row["zh"])


def false(key: str, **values: object) -> Statement:
    """A statement that the trace refutes; `<key>_no` says how."""
    return Statement(fill(key, **values), fill(f"{key}_no", **values))


def numbers(right: int, others: Sequence[int], reply: Text, key: str) -> tuple[Statement, ...]:
    """The right number first, then those of the others that differ from it, at most four in all."""
    values = list(dict.fromkeys([right, *(n for n in others if n >= 0)]))[:4]
    return tuple(
        Statement(Text(str(n), str(n)), reply if n == right else fill(key)) for n in values
    )


def table(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Rows as lines of fixed width under their column names; numbers stand right."""
    if not rows:
        return ()
    names = list(rows[0])
    cells = [names] + [["–" if row[n] is None else str(row[n]) for n in names] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    right = [isinstance(rows[0][name], int | float) for name in names]
    return tuple(
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in cells
    )
