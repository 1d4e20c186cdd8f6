"""The executor for one device: the runner, called in this process.

Nothing is gained by starting early when nobody works meanwhile, so a submitted batch waits and is computed
when it is collected: a step's time in the trace, from submitted to collected, is the time it took to compute.
Source: vLLM 0.33 `v1/executor/uniproc_executor.py`.
"""

from engine.batch import Batch, StepOutput
from engine.config import EngineConfig
from engine.executor.runner import ModelRunner
from engine.model.llama import Llama
from tracing.record import Recorder


class LocalExecutor:
    """Runs one batch at a time."""

    depth = 1

    def __init__(self, model: Llama, config: EngineConfig, recorder: Recorder) -> None:
        """Allocate the KV pool of a resolved config."""
        self._runner: ModelRunner | None = ModelRunner(model, config, recorder)
        self._batch: Batch | None = None

    def submit(self, batch: Batch) -> None:
        """Take the next batch."""
        assert self._batch is None, "one step in flight"
        self._batch = batch

    def collect(self) -> StepOutput:
        """Compute the batch that was submitted."""
        assert self._batch is not None, "nothing was submitted"
        assert self._runner is not None, "closed"
        batch, self._batch = self._batch, None
        return self._runner.execute(batch)

    def close(self) -> None:
        """Give back the KV pool and the weights."""
        self._runner = self._batch = None
