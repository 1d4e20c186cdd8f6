"""Errors that a user can fix; their message says what to change. Our own bugs are assertions."""


class CutawayError(Exception):
    """Base of every error that is meant for a user's eyes."""


class ConfigError(CutawayError):
    """A setting, or a combination of settings, that cannot work."""


class CapacityError(CutawayError):
    """Something does not fit: a prompt into the context, a pool into memory."""


class ModelError(CutawayError):
    """A model that cannot be found, read or run."""
