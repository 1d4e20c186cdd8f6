"""What an operator can set about the server, not the engine: who may come in, and for how long.

Source: names of vLLM 0.33 `vllm/entrypoints/openai/cli_args.py` where the meaning is vLLM's.
"""

from dataclasses import dataclass, field, fields
from math import inf
from typing import Any, Literal

from engine.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Raises ConfigError on values that cannot work."""

    api_key: str | None = field(default=None, repr=False)
    """Clients must send it as `Authorization: Bearer KEY`, on every path but /health; None: no key."""
    dev: bool = False
    """Offer the paths that change the engine under other people's requests: cache reset, trace level."""
    max_waiting: int = 1024
    """Requests that may wait; a further one gets 429."""
    request_timeout_s: float | None = None
    """A request may take so long, waiting included; None: as long as it likes."""
    drain_timeout_s: float = 5.0
    """How long open requests may go on after the first SIGTERM or Ctrl-C."""
    trusted_salt_header: str | None = None
    """Take cache_salt from this header, which a proxy sets, and from nowhere else."""
    generation_config: Literal["auto", "vllm"] = "auto"
    """auto: where a request says nothing, the model's generation_config.json does; vllm: it does not."""
    detokenizer: Literal["api", "process"] = "api"
    """Where tokens become text: in the API's process (as vLLM) or in one of its own (as SGLang)."""
    access_log: bool = False
    """One line per HTTP request on standard error; never its content."""

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.max_waiting < 0:
            raise ConfigError(f"max_waiting must be at least 0, got {self.max_waiting}")
        if self.request_timeout_s is not None and not 0 < self.request_timeout_s < inf:
            raise ConfigError(
                f"request_timeout must be above 0 and finite, got {self.request_timeout_s}"
            )
        if not 0 <= self.drain_timeout_s < inf:
            raise ConfigError(
                f"drain_timeout must be at least 0 and finite, got {self.drain_timeout_s}"
            )
        if self.api_key is not None and not self.api_key.strip():
            raise ConfigError("the API key is empty: leave it out, or set one")
        header = self.trusted_salt_header
        if header is not None and not header.replace("-", "").isalnum():
            raise ConfigError(f"{header!r} is not the name of an HTTP header")

    def shown(self) -> dict[str, Any]:
        """For eyes and traces: everything but the key itself."""
        values = {own.name: getattr(self, own.name) for own in fields(self)}
        return values | {"api_key": None if self.api_key is None else "(set)"}
