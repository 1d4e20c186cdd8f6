"""Replay of vLLM's golden decisions: the same requests through our scheduler, compared field by field.

The model is a script: output token i of a request is entry i of its `output_token_ids`, and drafts come from
the file. A step is: arrivals, aborts before scheduling, schedule, aborts during the step, output, drafts.
"""

import zlib
from collections.abc import Iterator
from typing import Any

from engine.batch import Batch, Row, StepOutput
from engine.config import EngineConfig
from engine.kv.paged import PagedKV
from engine.request import Request, SamplingParams
from engine.scheduler.vllm import VllmScheduler
from engine.sequence import Sequence
from tracing.record import NO_RECORDER, Code
from workbench.conformance.report import CaseResult, Difference

KINDS = {Code.ADMIT_NEW: "N", Code.ADMIT_RESUMED: "P"}
REASONS = {
    Code.END_LENGTH: "length",
    Code.END_MODEL_LEN: "length",
    Code.END_EOS: "stop",
    Code.END_STOP_TOKEN: "stop",
}
SCHEDULE = "vllm/v1/core/sched/scheduler.py Scheduler.schedule"
OUTPUT = "vllm/v1/core/sched/scheduler.py Scheduler.update_from_output"
POOL = "vllm/v1/core/block_pool.py"
FREE_ORDER = f"{POOL} free_blocks: tail first; with an entry to the back, without to the front"
RULES = {
    "sched": f"{SCHEDULE}: running in order, then waiting, on one token budget",
    "total": f"{SCHEDULE}: rows add up to at most the budget",
    "preempted": f"{SCHEDULE}: last admitted first; by priority the least urgent",
    "free_after_schedule": "vllm/v1/core/kv_cache_manager.py allocate_slots",
    "sampled": f"{OUTPUT}: rows inside a prompt sample nothing",
    "finished": "vllm/v1/core/sched/utils.py check_stop: stop tokens, then lengths",
    "free": FREE_ORDER,
    "running": f"{SCHEDULE}: in order of admission",
    "waiting": "vllm/v1/core/sched/request_queue.py: preempted to the front, or by priority",
    "num_waiting": "vllm/v1/core/sched/request_queue.py",
    "waiting_crc32": "vllm/v1/core/sched/request_queue.py",
    "free_queue": FREE_ORDER,
    "free_queue_crc32": FREE_ORDER,
    "cached": f"{POOL} cache_full_blocks at allocation, _maybe_evict_cached_block at reuse",
    "num_cached": f"{POOL} cache_full_blocks at allocation, _maybe_evict_cached_block at reuse",
    "prefix_stats": "vllm/v1/core/kv_cache_manager.py get_computed_blocks, once at admission",
}
SAME_NAME = (
    *("block_size", "num_blocks", "max_model_len", "max_num_batched_tokens", "max_num_seqs"),
    *("max_num_active_seqs", "long_prefill_token_threshold"),
    *("long_prefill_token_threshold_adaptive", "enable_chunked_prefill", "watermark"),
    *("scheduler_reserve_full_isl", "num_speculative_tokens"),
)


class Replay:
    """One case: our scheduler, fed with the case's requests and scripted outputs."""

    def __init__(self, case: dict[str, Any]) -> None:
        engine = case["engine"]
        config = EngineConfig(
            scheduling_policy=engine["policy"],
            cache="hash" if engine["enable_prefix_caching"] else "none",
            **{name: engine[name] for name in SAME_NAME},
        )
        self.kv = PagedKV(config, NO_RECORDER)
        self.scheduler = VllmScheduler(config, self.kv, NO_RECORDER)
        self.requests = case["requests"]
        self.names = [r["id"] for r in self.requests]
        self.seqs: dict[str, Sequence] = {}
        self.scripts = {r["id"]: r["output_token_ids"] for r in self.requests}
        self.caching = engine["enable_prefix_caching"]
        self.next_step = 0

    def step(self, theirs: dict[str, Any]) -> dict[str, Any]:
        """Play the step that `theirs` describes; returns ours in the same shape."""
        number = theirs["step"]
        for skipped in range(self.next_step, number):
            self._abort(skipped, "before_schedule")  # of the last one, which left nothing to run
        self.next_step = number + 1
        for i, request in enumerate(self.requests):
            if request["arrival_step"] == number:
                self.seqs[request["id"]] = self.scheduler.add(make_request(i, request))
        self._abort(number, "before_schedule")
        if theirs.get("idle"):
            return {}
        batch = self.scheduler.schedule() or Batch(number, 0, ())
        ours = self._scheduled(batch)
        self._abort(number, "during_step")
        tokens = tuple(self.sample(row) for row in batch.rows)
        ours["sampled"] = {
            self._name(row.seq): list(t) for row, t in zip(batch.rows, tokens, strict=True) if t
        }
        dropped = [self._name(row.seq) for row in batch.rows if row.seq.is_finished]
        finishes = self.scheduler.update(batch, StepOutput(tokens), 0)
        ours["finished"] = [[self._name(f.seq), REASONS[f.code]] for f in finishes]
        for name in dropped:
            theirs.get("sampled", {}).pop(name, None)
            ours["sampled"].pop(name, None)
        for name, drafts in theirs.get("drafts", {}).items():
            self.seqs[name].draft_token_ids = list(drafts)
        return ours | self._state(batch)

    def _scheduled(self, batch: Batch) -> dict[str, Any]:
        return {
            "sched": [self._row(row) for row in batch.rows],
            "total": batch.num_tokens,
            "preempted": [self._name(seq) for seq in batch.preempted],
            "free_after_schedule": self.kv.num_free,
        }

    def _row(self, row: Row) -> list[Any]:
        kind = KINDS.get(row.code, "R")
        if row.code == Code.SPEC_PAD:
            kind = "P" if row.seq.num_preemptions else "N"
        fields = [self._name(row.seq), kind, row.num_scheduled_tokens, row.num_computed_tokens]
        drafts = [list(row.draft_token_ids)] if row.draft_token_ids else []
        return [*fields, list(row.new_block_ids), *drafts]

    def _state(self, batch: Batch) -> dict[str, Any]:
        free_queue = [block.block_id for block in self.kv.pool.free_queue]
        waiting = [self._name(seq) for seq in self.scheduler.waiting]
        cached = [block.block_id for block in self.kv.pool.blocks if block.hash is not None]
        return {
            "free": self.kv.num_free,
            "running": [self._name(seq) for seq in self.scheduler.running],
            "waiting": waiting,
            "free_queue": free_queue,
            "cached": cached,
            "num_waiting": len(waiting),
            "waiting_crc32": _crc32(waiting),
            "free_queue_crc32": _crc32(free_queue),
            "num_cached": len(cached),
            "prefix_stats": self._prefix_stats(batch),
        }

    def _prefix_stats(self, batch: Batch) -> list[int]:
        stats = [0] * 6
        for row in batch.rows:
            read = self.caching and not row.seq.request.skip_reading_prefix_cache
            if read and row.code in (Code.ADMIT_NEW, Code.ADMIT_RESUMED, Code.SPEC_PAD):
                at = 3 if row.seq.num_preemptions else 0
                for j, n in enumerate((1, row.num_tokens, row.num_computed_tokens)):
                    stats[at + j] += n
        return stats

    def sample(self, row: Row) -> tuple[int, ...]:
        """The script's next tokens: one, and one more for each draft that agrees with the script."""
        if not row.samples:
            return ()
        script = self.scripts[self._name(row.seq)][row.num_tokens - row.seq.num_prompt_tokens :]
        accepted = 0
        while accepted < len(row.draft_token_ids) and (
            row.draft_token_ids[accepted] == script[accepted]
        ):
            accepted += 1
        return tuple(script[: accepted + 1])

    def _abort(self, number: int, phase: str) -> None:
        for request in self.requests:
            if request.get("abort_step") == number and request["abort_phase"] == phase:
                self.scheduler.abort(self.seqs[request["id"]])

    def _name(self, seq: Sequence) -> str:
        return str(self.names[seq.request_id])


def replay(case: dict[str, Any]) -> CaseResult:
    """Replay one case until its first difference."""
    play, steps = Replay(case), case["steps"]
    for i, theirs in enumerate(steps):
        ours = play.step(theirs)
        for field, a, b in _compare(theirs, ours):
            difference = Difference(theirs["step"], field, a, b, RULES[field])
            return CaseResult(
                case["name"], "vllm scheduler and KV cache", len(steps), i, difference
            )
    return CaseResult(case["name"], "vllm scheduler and KV cache", len(steps), len(steps))


def _compare(theirs: dict[str, Any], ours: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Fields that differ. A field that is absent there is empty there."""
    empty = {"preempted": [], "finished": [], "prefix_stats": [0] * 6}
    for field, value in ours.items():
        if field in theirs or field in empty:
            expected = theirs.get(field, empty.get(field))
            if expected != value:
                yield field, expected, value


def make_request(i: int, request: dict[str, Any]) -> Request:
    """The case's i-th request as ours."""
    params = SamplingParams(
        temperature=0,
        max_tokens=request["max_tokens"],
        stop_token_ids=tuple(request.get("stop_token_ids", ())),
    )
    return Request(
        request_id=i,
        prompt_token_ids=request["prompt_token_ids"],
        params=params,
        arrival_ns=i,
        eos_token_id=request.get("eos_token_id"),
        priority=request.get("priority", 0),
        cache_salt=request.get("cache_salt"),
        skip_reading_prefix_cache=request.get("skip_reading_prefix_cache", False),
    )


def _crc32(items: list[Any]) -> int:
    return zlib.crc32(",".join(map(str, items)).encode())
