"""Misses of a radix tree, found by comparing tokens: counts add up, and evictions are ones that happened."""

import random
from pathlib import Path

import pytest

from engine.config_sglang import SglangConfig
from tests.tracing.conftest import RunFolder
from tests.tracing.test_why_miss import STEM, Traffic
from tracing.store import Store
from workbench.trace_show import Page, make_console
from workbench.why_miss import explain


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def page_of(run: RunFolder, store: Store) -> Page:
    return Page("run", "run", run.info, store, make_console(), "en")


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_radix_trees_misses_add_up_and_evictions_are_told(
    folder: RunFolder, page_size: int
) -> None:
    rng = random.Random(3)
    traffic = Traffic(
        folder,
        policy="sglang",
        block_size=page_size,
        num_blocks=90 // page_size,
        max_model_len=64,
        sglang=SglangConfig(schedule_policy="lpm"),
    )
    traffic.describe("radix")
    for i in range(40):
        prompt = STEM[: rng.randrange(20)] + [
            rng.randrange(50) for _ in range(rng.randrange(1, 30))
        ]
        traffic.arrive(i + 1, prompt, rng.choice([None, None, "a"]))
        for _ in range(rng.randrange(4)):
            traffic.core.step()
    traffic.run()
    with folder.finished_store() as store:
        page = page_of(folder, store)
        seen: set[str] = set()
        dropped = set(
            store.sql("SELECT step, label(other_id) FROM cache_event WHERE code = 627").rows
        )
        for request_id, length in traffic.lengths.items():
            rows, agreement = explain(page.run, request_id, page.lang)
            assert sum(row["tokens"] for row in rows) == length
            assert agreement is not None
            hit = sum(row["tokens"] for row in rows if row["name"] == "HIT_PART")
            assert hit <= agreement.num_same
            for row in rows:
                seen.add(row["name"])
                if row["name"] == "MISS_EVICTED":
                    assert (row["step"], row["other"]) in dropped
        assert seen >= {"HIT_PART", "MISS_EVICTED", "MISS_DIFFERS", "MISS_NEVER", "MISS_SALT"}


def test_the_hash_chain_agrees_with_the_tokens(folder: RunFolder) -> None:
    traffic = Traffic(folder)
    traffic.describe("hash")
    traffic.arrive(1, STEM)
    traffic.run()
    traffic.arrive(2, STEM[:9] + [40] * 8)
    traffic.run()
    with folder.finished_store() as store:
        rows, agreement = explain(store, 2, "en")
        assert {row["name"]: row["tokens"] for row in rows}["HIT_PART"] == 8
        assert agreement is not None
        assert (agreement.num_same, agreement.owner) == (9, 1)
