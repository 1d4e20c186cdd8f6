"""Errors of the interview part that a user can fix; the message says what to do, in the reader's language."""

from interview.text import Language, Text


class DrillError(Exception):
    """A drill that cannot be asked, or progress that cannot be read."""

    def __init__(self, text: Text, language: Language = "en") -> None:
        super().__init__(text.in_(language))
        self.text = text
