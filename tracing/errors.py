"""Errors that a user can fix; the message says what to do. Our own bugs are assertions."""


class TraceError(Exception):
    """A run that cannot be found, opened or asked what was asked."""
