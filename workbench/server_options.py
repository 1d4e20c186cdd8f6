"""The server's settings as command-line options, named as vLLM names them where there is one.

One table, as for the engine (`engine_options`): option, field of `ServerSettings`, type, help.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from engine.server.settings import ServerSettings

Command = TypeVar("Command", bound=Callable[..., Any])

SERVER: dict[str, tuple[str, Any, str]] = {
    "--api-key": ("api_key", str, "Clients must send it; CUTAWAY_API_KEY hides it from `ps`."),
    "--max-waiting": ("max_waiting", int, "Requests that may wait; more get 429. Default 1024."),
    "--request-timeout": ("request_timeout_s", float, "Seconds a request may take."),
    "--drain-timeout": ("drain_timeout_s", float, "Seconds to finish at SIGTERM. Default 5."),
    "--trusted-salt-header": ("trusted_salt_header", str, "Header with cache_salt, by a proxy."),
    "--generation-config": (
        "generation_config",
        click.Choice(["auto", "vllm"]),
        "Sampling defaults: the model's (auto) or OpenAI's.",
    ),
    "--detokenizer": (
        "detokenizer",
        click.Choice(["api", "process"]),
        "Where tokens become text: in the API, or apart as SGLang does.",
    ),
}
FLAGS = {
    "dev": "Offer paths that reset the cache, change the trace level, and hold the engine still.",
    "access_log": "One line per HTTP request.",
}


def server_options(command: Command) -> Command:
    """Add all server options to a click command; it gets them as keyword arguments."""
    for field, text in reversed(FLAGS.items()):
        name = f"--{field.replace('_', '-')}"
        command = click.option(name, field, is_flag=True, help=text)(command)
    for name, (field, kind, text) in reversed(SERVER.items()):
        variable = "CUTAWAY_API_KEY" if field == "api_key" else None
        command = click.option(name, field, type=kind, help=text, envvar=variable)(command)
    return command


def make_settings(given: dict[str, Any]) -> ServerSettings:
    """The settings that the options ask for. Raises ConfigError if they cannot work."""
    values = {field: given[field] for field, _, _ in SERVER.values() if given[field] is not None}
    return ServerSettings(**values, **{field: given[field] for field in FLAGS})
