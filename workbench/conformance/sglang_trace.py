"""Replay of golden files of kind trace: whole runs of the scheduler's normal loop.

The model is a formula: output number i of a request is made of its name, or is the stop token 2. A tick is:
arrivals, schedule, output. Slots, node numbers and times are not compared; everything else is.
"""

from collections.abc import Iterator
from typing import Any

from engine.batch import Batch, Row, StepOutput
from engine.kv.radix import RadixKV
from engine.scheduler.sglang import SglangScheduler
from engine.sequence import Sequence
from tracing.record import NO_RECORDER, Code, Recorder
from workbench.conformance.sglang_setup import engine_config, make_request, number_by_name
from workbench.conformance.sglang_tree import our_state, sizes_of, their_state

MECHANISM = "sglang scheduler"
SCHEDULER = "sglang/srt/managers/scheduler.py"
NEXT_BATCH = f"{SCHEDULER} get_next_batch_to_run"
RESULT = "sglang/srt/managers/scheduler_components/batch_result_processor.py"
RULES = {
    "batch": f"{NEXT_BATCH}: prefill first, decode if nobody can be admitted",
    "rows": f"{SCHEDULER} _get_new_batch_prefill_raw, update_running_batch",
    "chunked": f"{SCHEDULER}: one cut prompt at a time",
    "waiting": f"{SCHEDULER} _add_request_to_queue: to the tail, then the policy's order",
    "running": f"{NEXT_BATCH}: a prefill joins at the end, retraction sorts",
    "full": f"{NEXT_BATCH}: batch_is_full",
    "ratio": "sglang/srt/managers/scheduler_components/new_token_ratio_tracker.py",
    "retracted": "sglang/srt/managers/schedule_batch.py retract_decode",
    "sizes_at_launch": "sglang/srt/mem_cache/allocation.py: evicts what is missing",
    "finished": f"{RESULT} _handle_finish_state_updated_req",
    "sizes": f"{RESULT}: checkpoints and releases",
    "idle": f"{SCHEDULER} on_idle",
    "requests": f"{SCHEDULER} init_req_max_new_tokens; outputs are the loop's business only",
    "tree": "sglang/srt/mem_cache/unified_radix_cache.py checkpoint_into_tree",
    "old_to_new": "sglang/srt/mem_cache/unified_cache/unified_tree_core.py: recency",
    "leaves": "sglang/srt/mem_cache/unified_cache/unified_tree_core.py _is_device_leaf",
}


def num_steps(case: dict[str, Any]) -> int:
    """One per tick, and the end."""
    return len(case["ticks"]) + 1


def steps(case: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(theirs, ours) of each tick, and what is left at the end."""
    play = _Play(case)
    empty: dict[str, Any] = {
        "chunked": None,
        "retracted": [],
        "finished": [],
        "idle": False,
        "rows": [],
    }
    for tick in case["ticks"]:
        theirs = empty | {k: v for k, v in tick.items() if k not in ("tick", "arrived")}
        yield theirs, play.tick(tick["tick"])
    theirs = {"requests": case["requests"]} | their_state(case["tree_at_end"])
    yield theirs, play.requests() | our_state(play.kv, case["tree_at_end"])


class _Retractions(Recorder):
    """Notes who is retracted; being pushed out by priority is another thing."""

    def __init__(self) -> None:
        super().__init__(None)
        self.noted: list[int] = []

    def decision(
        self, code: Code, request_id: int | None, *args: int, other: int | None = None
    ) -> None:
        if code in (Code.RETRACT_SHORTEST, Code.RETRACT_PRIORITY) and request_id is not None:
            self.noted.append(request_id)


class _Play:
    def __init__(self, case: dict[str, Any]) -> None:
        config = engine_config(case["config"])
        self.kv = RadixKV(config, NO_RECORDER)
        self.retractions = _Retractions()
        self.scheduler = SglangScheduler(config, self.kv, self.retractions)
        self.workload = case["workload"]
        self.numbers = number_by_name(self.workload)
        self.names = {number: rid for rid, number in self.numbers.items()}
        self.stop_at = {spec["rid"]: spec.get("stop_at") for spec in self.workload}
        self.seqs: dict[str, Sequence] = {}

    def tick(self, number: int) -> dict[str, Any]:
        """One turn of the loop."""
        for spec in self.workload:
            if spec["at"] == number:
                rid = spec["rid"]
                self.seqs[rid] = self.scheduler.add(make_request(self.numbers[rid], spec))
        ratio_before = self.scheduler.new_token_ratio
        batch = self.scheduler.schedule()
        if batch is None:
            # The ratio is reset *because* the engine is idle: what counts is the value it had.
            batch, ratio = Batch(0, 0, ()), ratio_before
        else:
            ratio = self.scheduler.new_token_ratio
        ours = self._planned(batch) | {"ratio": ratio}
        tokens = tuple((self._sample(row),) if row.samples else () for row in batch.rows)
        finishes = self.scheduler.update(batch, StepOutput(tokens), 0)
        return ours | {
            "finished": [self._name(finish.seq) for finish in finishes],
            "sizes": sizes_of(self.kv),
            "idle": not batch.rows and not self.scheduler.num_unfinished,
        }

    def _planned(self, batch: Batch) -> dict[str, Any]:
        scheduler = self.scheduler
        kinds = {row.code for row in batch.rows}
        kind = None
        if batch.rows:
            kind = "decode" if kinds == {Code.RUN_DECODE} else "prefill"
            if Code.MIX_DECODE in kinds:
                kind = "mixed"
        retracted, self.retractions.noted = self.retractions.noted, []
        return {
            "batch": kind,
            "rows": [self._row(row, kind == "decode") for row in batch.rows],
            "chunked": self._name(scheduler.chunked) if scheduler.chunked else None,
            "waiting": [self._name(seq) for seq in scheduler.waiting],
            "running": [self._name(seq) for seq in scheduler.decoding],
            "full": scheduler.is_full,
            "retracted": [self.names[number] for number in retracted],
            "sizes_at_launch": sizes_of(self.kv),
        }

    def _row(self, row: Row, is_decode: bool) -> list[Any]:
        if is_decode:
            return [self._name(row.seq), row.num_computed_tokens + 1]
        return [self._name(row.seq), row.num_computed_tokens, row.num_scheduled_tokens]

    def _sample(self, row: Row) -> int:
        rid, i = self._name(row.seq), row.seq.num_output_tokens
        if self.stop_at[rid] == i:
            return 2
        return 10_000 + (131 * sum(map(ord, rid)) + 17 * i) % 9_000

    def requests(self) -> dict[str, Any]:
        """How each request fared."""
        return {
            "requests": {
                rid: {
                    "cached": seq.num_cached_tokens or 0,
                    "retractions": seq.num_preemptions,
                    "max_new": seq.request.params.max_tokens,
                    "output": seq.token_ids[seq.num_prompt_tokens :],
                }
                for rid, seq in self.seqs.items()
            }
        }

    def _name(self, seq: Sequence) -> str:
        return self.names[seq.request_id]
