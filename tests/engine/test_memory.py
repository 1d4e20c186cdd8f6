"""The memory ledger: sums, limits, and advice when something does not fit."""

from dataclasses import replace

import pytest

from engine.config import EngineConfig
from engine.errors import CapacityError, ConfigError
from engine.memory import GIB, host_available_bytes, plan, render
from engine.model.config import ModelConfig

SMOLLM2 = ModelConfig(
    family="llama",
    vocab_size=49152,
    hidden_size=576,
    intermediate_size=1536,
    num_layers=30,
    num_heads=9,
    num_kv_heads=3,
    head_dim=64,
    rms_norm_eps=1e-5,
    rope_theta=1e5,
    rope_scaling=None,
    max_position_embeddings=8192,
    tie_word_embeddings=True,
    qkv_bias=False,
    o_bias=False,
    mlp_bias=False,
    qk_norm=False,
    bos_token_id=1,
    eos_token_ids=(2, 0),
)


def plan_for(available=24 * GIB, dtype_bytes=2, **settings):
    return plan(
        SMOLLM2, EngineConfig(**settings), dtype_bytes=dtype_bytes, available_bytes=available
    )


def test_a_roomy_machine_gives_the_default_pool():
    ledger = plan_for()
    assert ledger.weights_bytes == 134_515_008 * 2
    assert ledger.kv_bytes_per_token == 23040
    assert GIB - 16 * 23040 < ledger.kv_bytes <= GIB
    assert ledger.kv_bytes == ledger.num_blocks * 16 * 23040
    assert ledger.max_model_len == 8192
    uses = ledger.as_dict()
    assert uses.pop("available") == sum(uses.values()) == 24 * GIB


def test_float32_costs_twice():
    assert plan_for(dtype_bytes=4).kv_bytes_per_token == 2 * plan_for().kv_bytes_per_token
    assert plan_for(dtype_bytes=4).weights_bytes == 2 * plan_for().weights_bytes


def test_a_small_machine_gets_a_share_and_shorter_requests():
    ledger = plan_for(available=int(1.03 * GIB), max_num_seqs=16, max_num_batched_tokens=1024)
    assert ledger.kv_bytes < GIB / 2
    assert ledger.left_bytes > 0
    tight = plan_for(kv_memory_bytes=100 * 16 * 23040)
    assert (tight.num_blocks, tight.max_model_len) == (100, 99 * 16)


@pytest.mark.parametrize("policy", ["vllm", "sglang", "static"])
def test_the_plan_satisfies_the_config_that_it_resolves(policy):
    config = EngineConfig(policy=policy, kv_memory_bytes=2**24)
    ledger = plan(SMOLLM2, config, dtype_bytes=2, available_bytes=8 * GIB)
    resolved = config.resolve(num_blocks=ledger.num_blocks, max_model_len=ledger.max_model_len)
    assert resolved.max_model_len is not None
    with pytest.raises(ConfigError):  # and leaves nothing unused
        config.resolve(
            num_blocks=ledger.num_blocks, max_model_len=ledger.max_model_len + config.block_size
        )


def test_what_is_set_is_kept():
    ledger = plan_for(num_blocks=50, max_model_len=300)
    assert (ledger.num_blocks, ledger.max_model_len) == (50, 300)


def test_what_does_not_fit_is_said_in_numbers():
    with pytest.raises(CapacityError, match=r"weights 0\.25 GiB .* of 0\.20 GiB available"):
        plan_for(available=GIB // 5)
    with pytest.raises(CapacityError, match=r"KV pool does not fit: .* 30\.00 GiB"):
        plan_for(kv_memory_bytes=30 * GIB)
    with pytest.raises(CapacityError, match=r"^0 block\(s\) of 16 tokens .* at least 2 blocks"):
        plan_for(kv_memory_bytes=1000)
    with pytest.raises(CapacityError, match=r"^3 block\(s\) of 1 tokens .* at least 5 blocks"):
        plan_for(num_blocks=3, policy="sglang")
    with pytest.raises(ConfigError, match="8192"):
        plan_for(max_model_len=9000)


def test_the_table_shows_each_entry():
    table = render(plan_for(num_blocks=101))
    lines = table.splitlines()
    assert [line.split("  ")[0].strip() for line in lines] == [
        "available",
        "weights",
        "workspace",
        "KV pool",
        "left",
    ]
    assert "101 blocks of 16: 1600 tokens of 22.5 KiB; one request up to 1600" in lines[3]
    assert lines[0].endswith("24.00 GiB")
    assert max(len(line) for line in lines) <= 90


def write(root, files):
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


MEMINFO = "MemTotal:       24000000 kB\nMemFree:  10 kB\nMemAvailable:   20000000 kB\n"
STAT = "anon 5\nfile 7\ninactive_file 1000\n"


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        ({}, 20_000_000 * 1024),
        ({"memory.max": "max\n", "memory.current": "9\n", "memory.stat": STAT}, 20_000_000 * 1024),
        ({"memory.max": "9000\n", "memory.current": "3000\n", "memory.stat": STAT}, 7000),
        (
            {
                "memory/memory.limit_in_bytes": "9000\n",
                "memory/memory.usage_in_bytes": "4000\n",
                "memory/memory.stat": STAT,
            },
            6000,
        ),
    ],
    ids=["no group", "no limit", "version 2", "version 1"],
)
def test_available_memory_is_the_systems_or_the_groups(tmp_path, cgroup, expected):
    write(tmp_path, {"proc/meminfo": MEMINFO})
    write(tmp_path / "sys/fs/cgroup", cgroup)
    assert host_available_bytes(tmp_path) == expected


def test_an_unknown_system_has_at_least_its_physical_memory(tmp_path):
    assert host_available_bytes(tmp_path) > 2**20


def test_a_larger_batch_needs_a_larger_workspace():
    small, large = plan_for(max_num_batched_tokens=512), plan_for(max_num_batched_tokens=4096)
    assert large.workspace_bytes > small.workspace_bytes
    assert replace(small, workspace_bytes=large.workspace_bytes).left_bytes == large.left_bytes


def test_the_ledger_says_whether_the_pool_will_be_the_same_next_time():
    again = [plan_for(available=available).num_blocks for available in (24 * GIB, 9 * GIB, 4 * GIB)]
    assert len(set(again)) == 1, "free memory varies, the pool does not"
    assert plan_for().explain() == (
        "The KV pool has its default, 1.00 GiB, at every start: there is room enough for it."
    )
    assert "kv_memory_bytes says, at every start" in plan_for(kv_memory_bytes=GIB // 2).explain()
    assert "num_blocks says, at every start" in plan_for(num_blocks=1000).explain()
    short = plan_for(available=2 * GIB, max_num_seqs=16)
    assert short.kv_rule == "share"
    assert "varies from start to start. Set kv_memory_bytes" in short.explain()
