"""One rank's work in a step: batch -> tensors -> model -> sampler -> output.

The runner owns what the scheduler only counts: the memory behind the KV blocks. It keeps no other state, so a
sequence can be preempted, resumed or aborted without a word to it.
Invariant: rows come out in the order they came in; one that does not reach the end of its sequence samples
nothing.
Source: vLLM 0.33 `v1/worker/gpu_model_runner.py` (execute_model).
"""

import torch

from engine.batch import Batch, StepOutput
from engine.config import EngineConfig
from engine.model.attention import allocate_kv
from engine.model.input import build_input
from engine.model.launches import Launches
from engine.model.llama import Llama
from engine.model.sampler import sample
from tracing.record import Recorder


class ModelRunner:
    """A model with its KV cache on one device."""

    def __init__(self, model: Llama, config: EngineConfig, recorder: Recorder) -> None:
        """Allocate the KV pool of a resolved config."""
        assert config.num_blocks is not None, "resolve the config first"
        self.model = model
        self.config = config
        self.recorder = recorder
        sizes = model.config
        shape = (config.num_blocks, config.block_size, sizes.num_kv_heads, sizes.head_dim)
        self.kv = allocate_kv(sizes.num_layers, shape, model.dtype, model.device)

    @torch.inference_mode()
    def execute(self, batch: Batch) -> StepOutput:
        """Compute a batch: write its keys and values, sample where a sequence's end is reached."""
        start_ns = self.recorder.clock()
        model = self.model
        inputs = build_input(batch, model.config, self.config.block_size, model.dtype, model.device)
        launches = Launches(self.recorder)
        logits = model.forward(inputs, self.kv, launches.mark)
        sampling = [row for row in batch.rows if row.samples]
        sampled, logprobs = sample(logits, sampling, self.config.seed) if sampling else ([], [])
        if sampling:
            launches.mark("sample", -1)
        launches.write(batch.num_tokens)
        # Called in-process, this rank never waits for a batch or for a neighbour.
        waits = (0, 0, 0)
        layers = (0, model.config.num_layers)
        self.recorder.rank_step(
            (start_ns, self.recorder.clock(), *waits, *layers, batch.num_tokens)
        )
        tokens, reports = iter(sampled), iter(logprobs)
        return StepOutput(
            token_ids=tuple((next(tokens),) if row.samples else () for row in batch.rows),
            logprobs=tuple(next(reports) if row.samples else None for row in batch.rows)
            if logprobs
            else (),
        )
