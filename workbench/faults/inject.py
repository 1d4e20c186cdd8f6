"""Three faults, each a few lines put into a running engine, as they have happened to real ones.

    off-by-one   a lookup stops short of the last two tokens instead of the last: a prompt that ends one token
                 after a block gives up a block for nothing (one the other way nothing would be left to
                 compute, which `engine.model.input` asserts)
    salt         the cache salt does not enter the block hashes: tenants read each other's blocks
    starved      prompts take the step's budget before the sequences that decode

The engine itself has no switch for them: a scheduler with the fault takes the place of its own. Nothing marks
the run, for finding the fault is the exercise.

Source: the rules that are broken: vLLM 0.33 `vllm/v1/core/kv_cache_manager.py` (get_computed_blocks),
`kv_cache_utils.py` (generate_block_hash_extra_keys), `sched/scheduler.py` (schedule).
"""

from typing import Literal

from engine import LLM
from engine.config import EngineConfig
from engine.kv.block_pool import Block
from engine.kv.hashing import BlockHasher
from engine.kv.paged import PagedKV
from engine.scheduler.vllm import Plan, VllmScheduler
from engine.sequence import Sequence
from tracing.record import Recorder

Fault = Literal["off-by-one", "salt", "starved"]


class ShortHitKV(PagedKV):
    """Subtracts 1 where 1 had been subtracted already."""

    def lookup(self, seq: Sequence) -> list[Block]:
        """The longest cached prefix, short of the last two tokens."""
        assert self.cache is not None
        most = (seq.num_tokens - 2) // self._block_size
        return self.cache.longest_prefix(seq.block_hashes[:most])


class UnsaltedKV(PagedKV):
    """Forgets the salt."""

    def __init__(self, config: EngineConfig, recorder: Recorder) -> None:
        super().__init__(config, recorder)
        self._plain = BlockHasher(config.block_size, config.prefix_caching_hash_algo)

    def track(self, seq: Sequence) -> None:
        """Hash the tokens alone."""
        self._plain.extend(seq.block_hashes, seq.token_ids, None)


class PromptsFirstScheduler(VllmScheduler):
    """Forgets that whoever decodes comes before whoever still reads."""

    def _schedule_running(self, plan: Plan) -> None:
        self.running.sort(key=lambda seq: not seq.is_prefilling)
        super()._schedule_running(plan)


def inject(llm: LLM, fault: Fault) -> None:
    """Put a scheduler with the fault into an engine that has no requests yet."""
    core = llm.core
    assert not core.has_work
    config, recorder = core.scheduler.config, core.recorder
    match fault:
        case "off-by-one":
            core.scheduler = VllmScheduler(config, ShortHitKV(config, recorder), recorder)
        case "salt":
            core.scheduler = VllmScheduler(config, UnsaltedKV(config, recorder), recorder)
        case "starved":
            kv = PagedKV(config, recorder)
            core.scheduler = PromptsFirstScheduler(config, kv, recorder)
