"""What a learner has done: one JSON file that is written whole or not at all.

    drill.json    {"format": 1, "cards": {name: FSRS card}, "reviews": [...], "interview": "2026-12-14"}

It lies in $CUTAWAY_HOME, else under `cutaway` in the user's data folder (XDG_DATA_HOME or ~/.local/share).

Invariant: a file that cannot be read is never overwritten; it is copied aside and the error says where.
Source: XDG Base Directory Specification 0.8.
"""

import json
import os
import zlib
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from fsrs import Card
from fsrs.card import CardDict

from interview import spacing
from interview.errors import DrillError
from interview.marking import FULL
from interview.phrases import fill
from interview.questions import DIMENSIONS, Dimension

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Review:
    """One answered drill."""

    card: str
    at: datetime
    """UTC."""
    share: float
    """Of the marks, 0 to 1, after the learner's own correction."""
    machine_share: float
    """As the marker saw it; equal for numbers and choices."""
    seconds: float
    late: bool
    scores: dict[Dimension, int] | None
    """0 to 4 per dimension; None for numbers and choices."""


@dataclass(frozen=True, slots=True)
class Progress:
    """All cards and reviews of one learner."""

    cards: dict[str, CardDict] = field(default_factory=dict)
    reviews: tuple[Review, ...] = ()
    interview: date | None = None
    """The day to be ready for."""

    def with_review(self, review: Review) -> "Progress":
        """After one more answer; its card gets a new date."""
        rating = spacing.rate(review.share, late=review.late)
        days = spacing.LONGEST_DAYS
        if self.interview is not None and self.interview > review.at.date():
            days = (self.interview - review.at.date()).days
        card = spacing.review(
            review.card, self.cards.get(review.card), rating, review.at, longest_days=days
        )
        cards = self.cards | {review.card: card}
        return replace(self, cards=cards, reviews=(*self.reviews, review))


def progress_path() -> Path:
    """Where progress is kept."""
    if home := os.environ.get("CUTAWAY_HOME"):
        return Path(home) / "drill.json"
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "cutaway" / "drill.json"


def load(path: Path) -> Progress:
    """Read progress; empty if there is none.

    Raises DrillError for a damaged file, after copying it aside, and for one of a newer version.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return Progress()
    except OSError as error:
        raise DrillError(fill("error_unreadable", path=path, why=error.strerror)) from error
    try:
        raw = json.loads(content)
        if raw["format"] > FORMAT:
            raise DrillError(fill("error_newer", path=path, found=raw["format"], known=FORMAT))
        return _from_json(raw)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        copy = _set_aside(path, content)
        why = f"{type(error).__name__}: {error}"
        raise DrillError(fill("error_damaged", path=path, why=why, copy=copy)) from error


def _set_aside(path: Path, content: bytes) -> Path:
    """Keep a damaged file's content; named by it, so that looking twice makes one copy."""
    copy = path.with_name(f"{path.name}.damaged-{zlib.crc32(content):08x}")
    try:
        copy.write_bytes(content)
    except OSError as error:
        values = {"path": path, "copy": copy, "why": error.strerror}
        raise DrillError(fill("error_damaged_no_copy", **values)) from error
    return copy


def save(path: Path, progress: Progress) -> None:
    """Write progress so that a reader sees the old file or the new one, never half of it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(to_json(progress), indent=1, ensure_ascii=False) + "\n")
        os.replace(draft, path)
    except OSError as error:
        raise DrillError(fill("error_unwritable", path=path, why=error.strerror)) from error


def reset(path: Path) -> Path | None:
    """Begin anew; what was there is moved aside, and its new place returned."""
    if not path.exists():
        return None
    old = path.with_name(f"{path.name}.old")
    os.replace(path, old)
    return old


def to_json(progress: Progress) -> dict[str, Any]:
    """Plain values, as they are stored and exported."""
    reviews = [asdict(r) | {"at": r.at.isoformat()} for r in progress.reviews]
    day = progress.interview.isoformat() if progress.interview else None
    return {"format": FORMAT, "cards": progress.cards, "reviews": reviews, "interview": day}


def _from_json(raw: dict[str, Any]) -> Progress:
    for card in raw["cards"].values():
        Card.from_dict(card)
    return Progress(
        cards=raw["cards"],
        reviews=tuple(_review(review) for review in raw["reviews"]),
        interview=date.fromisoformat(raw["interview"]) if raw["interview"] else None,
    )


def _review(raw: dict[str, Any]) -> Review:
    scores = raw["scores"]
    if scores is not None and (set(scores) != set(DIMENSIONS) or not _all_marks(scores)):
        raise ValueError(f"review of {raw['card']} has impossible scores {scores}")
    if not 0 <= raw["share"] <= 1:
        raise ValueError(f"review of {raw['card']} has an impossible share {raw['share']}")
    return Review(**(raw | {"at": datetime.fromisoformat(raw["at"])}))


def _all_marks(scores: dict[str, Any]) -> bool:
    return all(isinstance(score, int) and 0 <= score <= FULL for score in scores.values())
