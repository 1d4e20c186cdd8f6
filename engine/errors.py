"""Errors that a user can fix; their message says what to change. Our own bugs are assertions."""


class CutawayError(Exception):
    """Base of every error that is meant for a user's eyes."""


class ConfigError(CutawayError):
    """A setting, or a combination of settings, that cannot work."""


class CapacityError(CutawayError):
    """Something does not fit: a prompt into the context, a pool into memory."""


class PromptTooLong(CapacityError):
    """A prompt that leaves no room in the context for an answer."""

    def __init__(self, num_tokens: int, max_model_len: int, *, at_least: bool = False) -> None:
        """`at_least`: the tokens were not counted, but there cannot be fewer."""
        super().__init__(
            f"the prompt has {'at least ' if at_least else ''}{num_tokens} tokens; the model's context of "
            f"{max_model_len} leaves room for {max_model_len - 1} and an answer. Shorten the prompt"
        )
        self.num_tokens = num_tokens


class ModelError(CutawayError):
    """A model that cannot be found, read or run."""
