"""Errors of the lessons that a user can fix; the message says what to do."""


class LessonError(Exception):
    """A lesson that cannot be read or run, or progress that cannot be read or written."""
