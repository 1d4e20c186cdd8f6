"""Each cause of a cache miss, made on purpose, and found again by the query."""

import random

from engine.core import EngineCore
from tests.engine.toys import request, toy_core
from tests.tracing.conftest import RunFolder
from tracing.record import NULL, Recorder
from tracing.store import Store


class Traffic:
    """A toy core with block size 4, and the little that a front end must have written for the query."""

    def __init__(self, folder: RunFolder, **settings: object) -> None:
        self.folder = folder
        self.front: Recorder = folder.recorder("api")
        self.core: EngineCore = toy_core(folder.recorder("core"), **settings)
        self.lengths: dict[int, int] = {}

    def arrive(self, request_id: int, prompt: list[int], salt: str | None = None) -> None:
        self.lengths[request_id] = len(prompt)
        namespace = self.front.intern("namespace", salt) if salt else 0
        now = self.front.clock()
        ids, sampling = (request_id, NULL, 0, 0, 0, NULL), (NULL,) * 4
        fields = (*ids, now, 0, len(prompt), 4, 0, namespace, *sampling)
        self.front.request(fields, external_id=None, operation="chat")
        self.front.prompt(request_id, prompt)
        self.core.add(request(request_id, prompt, 2, cache_salt=salt))

    def describe(self, cache_kind: str) -> None:
        config = self.core.scheduler.config
        self.core.recorder.describe_run(
            policy=config.policy,
            cache_kind=cache_kind,
            block_size=config.block_size,
            num_blocks=config.num_blocks,
            model="toy",
            config={},
        )

    def run(self) -> None:
        while self.core.has_work:
            self.core.step()

    def ask(self, store: Store, request_id: int) -> dict[str, int]:
        """Tokens by cause; checks that they add up."""
        rows = store.query("why_miss", request=request_id, lang="en").dicts()
        assert sum(row["tokens"] for row in rows) == self.lengths[request_id]
        causes: dict[str, int] = {}
        for row in rows:
            causes[row["name"]] = causes.get(row["name"], 0) + row["tokens"]
        return causes


STEM = list(range(20))


def test_differs_never_and_not_full(folder: RunFolder) -> None:
    traffic = Traffic(folder)
    traffic.arrive(1, STEM)
    traffic.run()
    traffic.arrive(2, STEM[:9] + [40] * 8)
    traffic.run()
    with folder.finished_store() as store:
        assert traffic.ask(store, 1) == {"MISS_DIFFERS": 4, "MISS_NEVER": 16}
        causes = {"HIT_PART": 8, "MISS_DIFFERS": 4, "MISS_NEVER": 4, "MISS_NOT_FULL": 1}
        assert traffic.ask(store, 2) == causes


def test_the_full_hit_rule(folder: RunFolder) -> None:
    traffic = Traffic(folder)
    for i in (1, 2):
        traffic.arrive(i, STEM)
        traffic.run()
    with folder.finished_store() as store:
        assert traffic.ask(store, 2) == {"HIT_PART": 16, "MISS_FULL_HIT": 4}


def test_another_salt_is_named_with_whom_it_was_seen(folder: RunFolder) -> None:
    traffic = Traffic(folder)
    traffic.arrive(1, STEM, "a")
    traffic.run()
    traffic.arrive(2, STEM, "b")
    traffic.run()
    with folder.finished_store() as store:
        assert traffic.ask(store, 2) == {"MISS_SALT": 20}
        rows = store.query("why_miss", request=2, lang="en").dicts()
        assert rows[0]["other"] == "#1"


def test_too_late_means_that_somebody_was_computing_it(folder: RunFolder) -> None:
    traffic = Traffic(folder, max_num_batched_tokens=12, long_prefill_token_threshold=8)
    traffic.arrive(1, STEM)
    traffic.arrive(2, STEM)
    traffic.run()
    with folder.finished_store() as store:
        causes = traffic.ask(store, 2)
        assert causes["MISS_TOO_LATE"] > 0
        assert set(causes) <= {"HIT_PART", "MISS_TOO_LATE", "MISS_DIFFERS", "MISS_FULL_HIT"}


def test_an_eviction_is_told_with_its_step_and_for_whom(folder: RunFolder) -> None:
    traffic = Traffic(folder, num_blocks=10, max_model_len=36)
    traffic.arrive(1, STEM)
    traffic.run()
    traffic.arrive(2, [30 + i % 20 for i in range(30)])
    traffic.run()
    traffic.arrive(3, STEM)
    traffic.run()
    with folder.finished_store() as store:
        causes = traffic.ask(store, 3)
        assert causes["MISS_EVICTED"] > 0
        evicted = [
            row
            for row in store.query("why_miss", request=3, lang="en").dicts()
            if row["name"] == "MISS_EVICTED"
        ]
        assert {row["other"] for row in evicted} == {"#2"}
        steps = {step for (step,) in store.sql("SELECT step FROM kv_event WHERE code = 608").rows}
        assert {row["step"] for row in evicted} <= steps


def test_a_cache_that_is_not_read_is_said_so(folder: RunFolder) -> None:
    traffic = Traffic(folder, cache="none")
    traffic.arrive(1, STEM)
    traffic.run()
    with folder.finished_store() as store:
        assert traffic.ask(store, 1) == {"HIT_NOT_READ": 20}


def test_counts_add_up_for_everybody_in_random_traffic(folder: RunFolder) -> None:
    rng = random.Random(7)
    traffic = Traffic(folder, num_blocks=20)
    for i in range(60):
        prompt = STEM[: rng.randrange(20)] + [
            rng.randrange(50) for _ in range(rng.randrange(1, 20))
        ]
        traffic.arrive(i + 1, prompt, rng.choice([None, None, "a"]))
        for _ in range(rng.randrange(3)):
            traffic.core.step()
    traffic.run()
    with folder.finished_store() as store:
        seen: set[str] = set()
        for request_id in traffic.lengths:
            causes = traffic.ask(store, request_id)
            (hit,) = store.sql(
                f"SELECT a0 FROM decision WHERE request_id = {request_id} AND code BETWEEN 701 AND 706"
                " ORDER BY seq LIMIT 1"
            ).rows[0]
            assert causes.get("HIT_PART", 0) == hit
            seen |= causes.keys()
        assert seen >= {"HIT_PART", "MISS_EVICTED", "MISS_NEVER", "MISS_NOT_FULL", "MISS_SALT"}
