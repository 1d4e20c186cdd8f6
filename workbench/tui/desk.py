"""What all screens share: the session, the way back, how things look, and what is asked in the background.

Invariant: there is one, made by the application; screens read it at each painting and keep nothing of it.
"""

from dataclasses import dataclass, field

from workbench.look.words import Words
from workbench.tui.answers import Answers
from workbench.tui.glyphs import Glyphs
from workbench.tui.places import Places
from workbench.tui.session import Session
from workbench.tui.theme import Theme

NUMBERS_PER_SECOND = 2
"""Numbers change no more often than they can be read; pictures may."""


@dataclass(slots=True)
class Desk:
    """What all screens share."""

    session: Session
    places: Places
    theme: Theme
    glyphs: Glyphs
    words: Words
    answers: Answers
    drafts: dict[str, str] = field(default_factory=dict)
    """Answers to prompts sent from here, by the client's id of the request."""
