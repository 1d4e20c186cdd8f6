"""Cutaway's serving engine: requests in, tokens out, every decision written down.

    from engine import LLM, SamplingParams

The names below load when they are first used, so `import engine.scheduler` never loads torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engine.config import EngineConfig
    from engine.errors import CapacityError, ConfigError, CutawayError, ModelError
    from engine.llm import LLM
    from engine.outputs import CompletionOutput, RequestOutput
    from engine.request import SamplingParams

__all__ = [
    "LLM",
    "CapacityError",
    "CompletionOutput",
    "ConfigError",
    "CutawayError",
    "EngineConfig",
    "ModelError",
    "RequestOutput",
    "SamplingParams",
]

_HOMES = {
    "LLM": "llm",
    "CapacityError": "errors",
    "CompletionOutput": "outputs",
    "ConfigError": "errors",
    "CutawayError": "errors",
    "EngineConfig": "config",
    "ModelError": "errors",
    "RequestOutput": "outputs",
    "SamplingParams": "request",
}


def __getattr__(name: str) -> object:
    """Load a public name from its module (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(f"engine.{_HOMES[name]}"), name)
