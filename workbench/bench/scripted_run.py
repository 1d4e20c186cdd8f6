"""A run whose decisions are real and whose model is a script: for pictures, tests and measurements.

    python -m workbench.bench.scripted_run FOLDER --case tests/golden/vllm/r12_pressure_200.json
    python -m workbench.bench.scripted_run FOLDER --requests 3000        random traffic, any length

Scheduler, block pool, prefix cache, core loop and recording are the product's own. Only the model is not: it
returns scripted tokens, and a step takes as long as a cost model says, on a clock that the run moves itself.
So 200 requests take a second to record, always the same, and the screens have preemptions to show.

Invariant: the run says of itself that it is scripted (`model`) and that its times are modelled
(`config.clock`). Place in the step: the executor's, and the front end's.
"""

import json
import random
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

import tracing
from engine.batch import Batch, Row, StepOutput
from engine.config import EngineConfig
from engine.core import EngineCore
from engine.messages import CoreOutput, End
from engine.request import Request, SamplingParams
from engine.scheduler import make_scheduler
from tracing.record import NULL, Code, Phase, Recorder
from tracing.runs import RunInfo
from tracing.spool import SpoolWriter

MODEL = "scripted tokens"
STEP_NS, PREFILL_NS, DECODE_NS = 6_500_000, 210_000, 850_000
"""Of a step, of each prompt token in it, of each decode: the order of SmolLM2-135M on two CPU cores."""
FRONT_END = 1 << 32
SETTINGS = (
    *("block_size", "num_blocks", "max_model_len", "max_num_batched_tokens", "max_num_seqs"),
    *("long_prefill_token_threshold", "enable_chunked_prefill", "watermark"),
    "scheduler_reserve_full_isl",
)
"""Of a golden case, what `EngineConfig` has under the same name."""


@dataclass(frozen=True, slots=True)
class Script:
    """One request to come: when, what it asks, and what the model will say."""

    arrival_step: int
    prompt: list[int]
    output: list[int]
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ScriptedExecutor:
    """Runs a batch by looking its tokens up, and moves the clock by what it would have cost."""

    scripts: dict[int, Script]
    recorder: Recorder
    launches: list[tuple[str, int]]
    now_ns: int = 1_000_000
    depth: int = 1
    outputs: deque[StepOutput] = field(default_factory=deque)

    def clock(self) -> int:
        """Modelled time; each reading takes a microsecond, so that no two are equal."""
        self.now_ns += 1_000
        return self.now_ns

    def submit(self, batch: Batch) -> None:
        """Compute the step's tokens and its time."""
        prefill = sum(row.num_scheduled_tokens for row in batch.rows if row.is_prefill)
        decode = batch.num_tokens - prefill
        cost = STEP_NS + prefill * PREFILL_NS + decode * DECODE_NS
        start, n = self.clock(), len(self.launches)
        if n:
            marks = [start + cost * i // n for i in range(n + 1)]
            self.recorder.begin_step(batch.step, batch.start_ns)
            self.recorder.kernels(self.launches, marks, batch.num_tokens)
        self.now_ns = start + cost
        self.outputs.append(StepOutput(tuple(self._sample(row) for row in batch.rows)))

    def collect(self) -> StepOutput:
        """The oldest step's tokens."""
        return self.outputs.popleft()

    def close(self) -> None:
        """Nothing is held."""

    def _sample(self, row: Row) -> tuple[int, ...]:
        if not row.samples:
            return ()
        script = self.scripts[row.seq.request_id]
        return (script.output[row.num_tokens - row.seq.num_prompt_tokens],)


def record(
    run_dir: Path, config: EngineConfig, scripts: list[Script], *, num_launches: int = 0
) -> None:
    """Play the scripts through an engine core and record them as a sealed run in `run_dir`.

    `num_launches`: kernel launches to record per step, spread evenly over it.
    """
    run_dir.mkdir(parents=True)
    info = RunInfo.new(tokens_recorded=True)
    info.save(run_dir)
    sinks = {role: SpoolWriter(run_dir, info.run_id, role) for role in ("api", "core")}
    api, recorder = (
        Recorder(
            sink,
            role=role,
            proc_id=sink.proc_id,
            engine_id=0 if role == "core" else None,
            record_tokens=True,
            hash_key=b"scripted",
        )
        for role, sink in sinks.items()
    )
    launches = [
        (name, i // 2) for i in range(num_launches) for name in [("attention", "mlp")[i % 2]]
    ]
    executor = ScriptedExecutor(
        {}, recorder, launches, now_ns=-info.epoch_offset_ns + info.created_ns
    )
    api.clock = recorder.clock = executor.clock
    described = config.as_dict() | {"clock": "modelled", "versions": {"vllm followed": "0.33.0"}}
    recorder.describe_run(
        policy=config.policy,
        cache_kind=config.cache,
        block_size=config.block_size,
        num_blocks=config.num_blocks,
        model=MODEL,
        config=described,
    )
    scheduler = make_scheduler(config, recorder)
    scheduler.clock = executor.clock
    core = EngineCore(scheduler, executor, recorder, executor.clock)
    _play(core, executor, api, scripts)
    core.close()
    for writer, sink in ((api, sinks["api"]), (recorder, sinks["core"])):
        writer.close()
        sink.close()
    tracing.open_run(run_dir).close()


def _play(
    core: EngineCore, executor: ScriptedExecutor, api: Recorder, scripts: list[Script]
) -> None:
    """Add each request at its step, and step until nothing is left."""
    coming = deque(sorted(enumerate(scripts), key=lambda pair: pair[1].arrival_step))
    step = 0
    while coming or core.has_work:
        while coming and coming[0][1].arrival_step <= step:
            number, script = coming.popleft()
            request = _request(FRONT_END + number, script, executor.clock())
            executor.scripts[request.request_id] = script
            _record_arrival(api, request)
            core.add(request)
        for request_id, script in list(executor.scripts.items()):
            if script.fields.get("abort_step") == step and request_id in core.sequences:
                core.abort(request_id, Code.ABORT_CALL, script.fields.get("num_output", 0))
                _record_ends(
                    api, executor, core.step()
                )  # ends of aborted requests come by themselves
        if core.has_work:
            _record_ends(api, executor, core.step())
        else:
            executor.now_ns += STEP_NS
        step += 1
        api.flush()


def _request(request_id: int, script: Script, now_ns: int) -> Request:
    max_tokens = script.fields.get("max_tokens", len(script.output))
    stop = tuple(script.fields.get("stop_token_ids", ()))
    return Request(
        request_id=request_id,
        prompt_token_ids=script.prompt,
        params=SamplingParams(temperature=0, max_tokens=max_tokens, stop_token_ids=stop),
        arrival_ns=now_ns,
        sent_ns=now_ns,
        priority=script.fields.get("priority", 0),
        cache_salt=script.fields.get("cache_salt"),
    )


def _record_arrival(api: Recorder, request: Request) -> None:
    max_tokens = request.params.max_tokens
    ids = (request.request_id, NULL, NULL, NULL, NULL, NULL, request.arrival_ns, 1)
    asked = (len(request.prompt_token_ids), max_tokens or NULL, request.priority, 0)
    api.request((*ids, *asked, 0, 1_000_000, NULL, NULL), external_id=None, operation="chat")


def _record_ends(api: Recorder, executor: ScriptedExecutor, outputs: list[CoreOutput]) -> None:
    for output in outputs:
        fields = executor.scripts[output.request_id].fields
        if output.token_ids:
            fields.setdefault("first_token_ns", output.ts_ns)
            fields["last_token_ns"] = output.ts_ns
        fields["num_output"] = fields.get("num_output", 0) + len(output.token_ids)
        if output.end is not None:
            _record_end(api, output.request_id, output.end, fields)
            del executor.scripts[output.request_id]


def _record_end(api: Recorder, request_id: int, end: End, fields: dict[str, Any]) -> None:
    """Phases and end of a request, as a front end writes them."""
    marks = [*end.phases, (Phase.DELIVER, end.end_ns, -1)]
    for (phase, start_ns, step), (_, next_ns, next_step) in pairwise(marks):
        if next_ns > start_ns:
            last = next_step - 1 if next_step > step else end.last_step
            api.phase(
                request_id, phase, start_ns, next_ns, step, max(step, last) if step >= 0 else -1
            )
    cached = NULL if end.num_cached_tokens is None else end.num_cached_tokens
    counts = (fields["num_output"], cached)
    lost = (end.num_recomputed_tokens, end.num_preemptions)
    first, last = (fields.get(name, NULL) for name in ("first_token_ns", "last_token_ns"))
    times = (first, last, first, NULL)
    api.request_end((request_id, end.end_ns, end.code, 200, *counts, *lost, *times, end.a0))


def golden(path: Path) -> tuple[EngineConfig, list[Script]]:
    """The settings and requests of a golden scheduler case (`tests/golden/vllm`), without drafts."""
    case = json.loads(path.read_text())
    engine = case["engine"]
    config = EngineConfig(
        model=MODEL,
        scheduling_policy=engine["policy"],
        cache="hash" if engine["enable_prefix_caching"] else "none",
        **{name: engine[name] for name in SETTINGS},
    )
    known = ("max_tokens", "stop_token_ids", "priority", "cache_salt", "abort_step")
    scripts = [
        Script(
            r["arrival_step"],
            r["prompt_token_ids"],
            r["output_token_ids"],
            {name: r[name] for name in known if name in r},
        )
        for r in case["requests"]
    ]
    return config, scripts


def random_traffic(num_requests: int, seed: int) -> tuple[EngineConfig, list[Script]]:
    """Bursts of requests that share prefixes, on a pool that is too small for them now and then."""
    rng = random.Random(seed)
    config = EngineConfig(
        model=MODEL,
        num_blocks=257,
        max_model_len=1024,
        max_num_batched_tokens=256,
        max_num_seqs=24,
    )
    return config, list(_arrivals(rng, num_requests))


def _arrivals(rng: random.Random, num_requests: int) -> Iterable[Script]:
    families = [[rng.randrange(1000) for _ in range(96)] for _ in range(12)]
    step = 0
    for _ in range(num_requests):
        step += rng.choice((0, 0, 1, 3, 9))
        prefix = rng.choice(families)[: rng.randrange(0, 97)]
        prompt = prefix + [rng.randrange(1000) for _ in range(rng.randrange(8, 200))]
        yield Script(step, prompt, [rng.randrange(1000) for _ in range(rng.randrange(4, 160))])


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--case", type=click.Path(exists=True, path_type=Path), help="A golden vLLM case.")
@click.option("--requests", default=200, show_default=True, help="Without a case: how many.")
@click.option("--launches", default=0, help="Kernel launches per step, evenly spread.")
@click.option("--seed", default=1, show_default=True)
def main(folder: Path, case: Path | None, requests: int, launches: int, seed: int) -> None:
    """Record a golden case, or random traffic, as a run in FOLDER."""
    config, scripts = golden(case) if case else random_traffic(requests, seed)
    record(folder, config, scripts, num_launches=launches)
    click.echo(f"recorded {len(scripts)} requests in {folder}")


if __name__ == "__main__":
    main()
