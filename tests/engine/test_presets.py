from engine.config import EngineConfig
from engine.config_sglang import SglangConfig
from engine.presets import NOT_REPEATED, TITLES, differences, flat


def test_a_preset_does_not_differ_from_itself_and_from_others_where_they_say_why():
    for policy in TITLES:
        assert list(differences(EngineConfig(policy=policy), policy)) == []
    found = {
        d.field: (d.here, d.preset) for d in differences(EngineConfig(policy="sglang"), "vllm")
    }
    assert found == {
        "policy": ("sglang", "vllm"),
        "cache": ("radix", "hash"),
        "block_size": (1, 16),
    }
    assert all(d.why != "set for this server" for d in differences(EngineConfig(), "sglang"))


def test_what_was_set_is_told_apart_from_what_the_preset_brings():
    config = EngineConfig(max_num_seqs=7, num_blocks=99, sglang=SglangConfig(max_prefill_tokens=5))
    assert [(d.field, d.here, d.why) for d in differences(config, "vllm")] == [
        ("max_num_seqs", 7, "set for this server")
    ], "the pool belongs to the machine, and nobody reads sglang's settings"
    against = {d.field for d in differences(config, "sglang")}
    assert "sglang.max_prefill_tokens" in against


def test_every_deviation_from_upstream_names_a_setting_that_exists():
    for entry in NOT_REPEATED:
        assert entry.field in flat(EngineConfig(policy=entry.policy))
