"""Command-line options: what is given arrives, what is not keeps the preset's default."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from engine.config import EngineConfig
from engine.config_sglang import SglangConfig
from engine.errors import ConfigError
from engine.server.settings import ServerSettings
from workbench.engine_options import engine_options, make_config
from workbench.server_options import make_settings, server_options


def parse(*words: str, **environment: str) -> tuple[EngineConfig, ServerSettings]:
    """What a command with all options makes of these words."""
    made: list[Any] = []

    @click.command()
    @engine_options
    @server_options
    def command(**given: Any) -> None:
        made.extend((make_config(given), make_settings(given)))

    done = CliRunner().invoke(command, words, env=environment, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return made[0], made[1]


def test_without_options_the_defaults_stand() -> None:
    assert parse() == (EngineConfig(), ServerSettings())


@pytest.mark.parametrize("policy", ["vllm", "sglang", "static"])
def test_a_policy_brings_its_cache_and_block_size(policy: Any) -> None:
    assert parse("--policy", policy)[0] == EngineConfig(policy=policy)


def test_options_arrive_under_upstreams_names() -> None:
    words = (
        "--policy sglang --page-size 4 --schedule-policy lpm --enable-mixed-chunk --kv-memory-mib 3"
    )
    config, _ = parse(*words.split())
    assert config == EngineConfig(
        policy="sglang",
        block_size=4,
        kv_memory_bytes=3 * 2**20,
        sglang=SglangConfig(schedule_policy="lpm", enable_mixed_chunk=True),
    )
    words = "--max-waiting 0 --request-timeout 2.5 --drain-timeout 0 --detokenizer process --dev"
    words += " --trusted-salt-header X-Tenant --generation-config vllm --access-log"
    _, settings = parse(*words.split(), CUTAWAY_API_KEY="hush")
    assert settings == ServerSettings(
        api_key="hush",
        dev=True,
        max_waiting=0,
        request_timeout_s=2.5,
        drain_timeout_s=0.0,
        trusted_salt_header="X-Tenant",
        generation_config="vllm",
        detokenizer="process",
        access_log=True,
    )
    assert settings.shown()["api_key"] == "(set)"
    assert "hush" not in repr(settings) + repr(settings.shown())


@pytest.mark.parametrize(
    "settings",
    [
        {"max_waiting": -1},
        {"request_timeout_s": 0.0},
        {"drain_timeout_s": -1.0},
        {"api_key": " "},
        {"trusted_salt_header": "X Salt:"},
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ServerSettings(**settings)
