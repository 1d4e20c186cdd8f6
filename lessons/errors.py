"""Errors of the lessons that a user can fix; the message says what to do.

Invariant: an error that a learner can cause is a `Text`, and is said in the learner's language. A
plain string is for who writes lessons: a file that is not as it should be.
"""

from lessons.text import Language, Text


class LessonError(Exception):
    """A lesson that cannot be read or run, or progress that cannot be read or written."""

    def __init__(self, said: Text | str) -> None:
        super().__init__(said if isinstance(said, str) else said.en)
        self.said = said

    def in_(self, language: Language) -> str:
        """The message in that language."""
        return self.said if isinstance(self.said, str) else self.said.in_(language)
