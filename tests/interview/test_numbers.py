"""Every figure of the worked examples, against figures that were worked out elsewhere."""

import pytest

from interview.numbers import EXAMPLES
from interview.numbers.worked import results, show


def figures(name: str, preset: str | None = None, **changed) -> dict[str, float]:
    example = EXAMPLES[name]
    return results(example.run(**(dict(example.presets[preset]) if preset else {}), **changed))


def test_dense_weights_on_eight_cards():
    got = figures("layouts")
    table = {8: (2, 22, 16, 1), 4: (4, 20, 32, 2), 2: (8, 16, 64, 4), 1: (16, 8, 128, 8)}
    for tp, row in table.items():
        assert tuple(got[f"{key}_tp{tp}"] for key in ("card", "left", "all", "groups")) == row


def test_experts_on_four_cards():
    got = figures("experts")
    assert (got["card_tp1"], got["card_tp2"], got["card_tp4"]) == (16.5, 13.5, 12.0)
    assert (got["all_tp1"], got["all_tp2"], got["all_tp4"]) == (66, 54, 48)
    assert (got["saved_tp2"], got["saved_tp4"], got["copy"]) == (3.0, 4.5, 48)


def test_bytes_over_a_pipeline_boundary():
    got = figures("boundary")
    assert (got["token"], got["decode"], got["prefill"]) == (6144, 48 * 2**10, 192 * 2**20)
    assert got["decode_time"] == pytest.approx(3.81, abs=0.005)  # µs
    assert got["prefill_time"] == pytest.approx(15.625)  # ms
    assert (got["chunk"], round(got["chunk_time"])) == (3 * 2**20, 244)
    longer = figures("boundary", preset="chunk-2048")
    assert (longer["chunk"], round(longer["chunk_time"])) == (12 * 2**20, 977)
    assert got["tp"] == 432 * 2**10


def test_rounds_of_static_and_continuous_batching():
    got = figures("rounds")
    assert (got["static"], got["continuous"]) == (8, 5)
    assert (got["static_used"], got["continuous_used"]) == (62.5, 100)
    assert (got["static_wait"], got["continuous_wait"]) == (5, 2)


def test_rounds_are_drawn():
    lines = {line.key: line.how for line in EXAMPLES["rounds"].run()}
    assert lines["static"] == "AB AB B· B· B· C· C· C·"
    assert lines["continuous"] == "AB AB BC BC BC"


def test_request_r():
    got = figures("request-r")
    assert (got["cached"], got["computed"], got["cached_16"]) == (4, 2, 0)
    assert (got["logits_from"], got["x_position"], got["x_written"]) == (5, 6, 2)
    assert figures("request-r", common=6)["computed"] == 2  # all cached: the last unit runs again
    assert figures("request-r", common=6, unit=1)["computed"] == 1


def test_the_same_prompt_twice():
    got = figures("repeat")
    cached = {n: got[f"cached_{n}"] for n in (15, 31, 63, 64, 65)}
    assert cached == {15: 0, 31: 16, 63: 48, 64: 48, 65: 64}
    assert (got["computed_64"], got["computed_65"], got["computed_63"]) == (16, 1, 15)


@pytest.mark.parametrize(
    ("preset", "blocks", "by_blocks", "by_tokens"),
    [(None, 125, 2000, 2000), ("odd", 125, 2000, 2007), ("long", 187, 2992, 3000)],
)
def test_a_shared_prefix(preset, blocks, by_blocks, by_tokens):
    got = figures("shared-prefix", preset=preset)
    assert (got["blocks"], got["reused"], got["reused_page1"]) == (blocks, by_blocks, by_tokens)


def test_four_branches_on_a_trunk():
    got = figures("shared-prefix")
    assert (got["computed"], got["total_with"], got["total_without"]) == (100, 2400, 8400)
    assert figures("shared-prefix", common=64, own=30)["reused"] == 64  # of a 94-token prompt


def test_restore_or_recompute():
    assert figures("restore")["saved"] == 45
    assert figures("restore", preset="slow")["saved"] == -25
    assert figures("restore")["break_even"] == 75


def test_gpus_for_a_peak():
    got = figures("fleet")
    assert got["exact"] == pytest.approx(7.143, abs=0.0005)
    assert (got["rounded"], got["fleet"]) == (8, 9)
    assert [round(got[k], 1) for k in ("use", "use_all", "use_lost")] == [62.5, 55.6, 71.4]


def test_a_fleet_at_exactly_the_target_is_not_rounded_up():
    assert figures("fleet", rate=6.3, per_gpu=3.0, target=0.7, spare=0)["fleet"] == 3


OPEN_AND_CLOSED = {  # mean, p50, p99, max, to the digits that were published
    "open_3": (0.642, 0.485, 2.259, 2.88),
    "open_4.5": (57.43, 60.49, 114.55, 117.0),
    "open_5": (100.70, 104.95, 196.32, 200.2),
    "closed_4": (1.000, 1.000, 1.000, 1.00),
    "closed_16": (3.993, 4.000, 4.000, 4.00),
}


def test_open_and_closed_loop_with_seed_1():
    got = figures("loops")
    for row, (mean, p50, p99, longest) in OPEN_AND_CLOSED.items():
        digits = 3 if mean < 50 else 2
        assert round(got[f"{row}_mean"], digits) == pytest.approx(mean, abs=0.0006)
        assert round(got[f"{row}_p50"], digits) == p50
        assert round(got[f"{row}_p99"], digits) == pytest.approx(p99, abs=0.0051)
        assert got[f"{row}_max"] == pytest.approx(longest, abs=0.05)
    assert got["open_3_theory"] == 0.625
    assert round(got["open_4.5_theory"]) == 111
    assert got["open_5_theory"] == 200


def test_one_generator_feeds_the_open_rows_in_order():
    assert figures("loops", rates=(4.5, 3.0))["open_3_mean"] != figures("loops")["open_3_mean"]


def test_other_seeds_give_other_tails():
    tails = [figures("loops", seed=seed)["open_3_p99"] for seed in range(1, 6)]
    assert round(min(tails), 1) == 1.9
    assert round(max(tails), 1) == 2.8


@pytest.mark.parametrize(
    ("preset", "kib"),
    [
        ("qwen3-1.7b", 112),
        ("qwen3-4b", 144),
        ("qwen3-0.6b", 112),
        ("qwen2.5-1.5b", 28),
        ("llama-2-7b", 512),
        ("llama-2-13b", 800),
        ("llama-3-8b", 128),
        ("llama-3-70b", 320),
        ("smollm2-135m", 22.5),
    ],
)
def test_kv_per_token(preset, kib):
    assert figures("kv", preset=preset)["token"] == kib * 2**10


def test_what_a_pool_of_smollm2_holds():
    got = figures("kv", preset="smollm2-135m", pool_mib=64.0)
    assert (got["block"], got["blocks"], got["tokens"]) == (360 * 2**10, 182, 2912)
    assert (got["given_out"], got["usable"]) == (181, 2896), "as lesson 3 teaches: block 0 is never"
    assert figures("kv", pool_mib=0.0)["usable"] == 0
    assert figures("kv")["token"] == 114_688


def test_half_the_weight_bytes():
    got = figures("fp8")
    assert round(got["speed_up"], 2) == 1.52
    assert (round(got["bandwidth"]), round(got["bandwidth_after"])) == (216, 164)
    assert got["reading"] / 2 + got["fixed"] == pytest.approx(got["after"])


def test_every_example_shows_its_headline_and_names_its_inputs():
    for example in EXAMPLES.values():
        keys = [line.key for line in example.run()]
        assert example.headline in keys
        assert len(keys) == len(set(keys))
        for preset in example.presets.values():
            assert set(preset) <= {param.name for param in example.params}
            example.run(**preset)


def test_an_input_that_does_not_exist_is_our_bug():
    with pytest.raises(TypeError, match="layer"):
        EXAMPLES["kv"].run(layer=3)


@pytest.mark.parametrize(
    ("value", "unit", "en", "zh"),
    [
        (114_688, "B", "114,688 B = 112 KiB", "114,688 B = 112 KiB"),
        (1, "tokens", "1 token", "1 个 token"),
        (2912, "tokens", "2,912 tokens", "2,912 个 token"),
        (7.142857, "GPUs", "7.143 GPUs", "7.143 张 GPU"),
        (-25, "ms", "-25 ms", "-25 ms"),
    ],
)
def test_numbers_are_shown_with_their_unit(value, unit, en, zh):
    assert (show(value, unit, "en"), show(value, unit, "zh")) == (en, zh)
