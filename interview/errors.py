"""Errors of the interview part that a user can fix; the message says what to do."""


class DrillError(Exception):
    """A drill that cannot be asked, or progress that cannot be read."""
