"""A model for tests of scheduling: no weights, but a memory that notices every misuse.

Each KV slot remembers which prefix its token was computed after. A row may only be computed if all of its
context is where its block table says, and undamaged; so the use of a freed or overwritten block, a wrong
prefix hit or a skipped token fails at once. The next token is a hash of the whole prefix, so outputs are the
same under every policy or something is wrong.
"""

import zlib
from collections import deque

from engine.batch import Batch, Row, StepOutput
from engine.config import EngineConfig
from engine.core import EngineCore
from engine.kv.paged import PagedKV
from engine.kv.radix import RadixKV
from engine.kv.radix_tree import Node, blocks_to
from engine.messages import CoreOutput
from engine.request import Request, SamplingParams
from engine.scheduler import make_scheduler
from tracing.record import NO_RECORDER, Recorder

VOCABULARY = 50


def prefix_hashes(token_ids: list[int], salt: str | None) -> list[int]:
    """A running hash: entry i stands for tokens 0..i under this salt."""
    running, hashes = zlib.crc32((salt or "").encode()), []
    for token_id in token_ids:
        running = zlib.crc32(token_id.to_bytes(4, "little"), running)
        hashes.append(running)
    return hashes


def next_token(token_ids: list[int]) -> int:
    """What the toy model says after these tokens."""
    return prefix_hashes(token_ids, None)[-1] % VOCABULARY


def expected_output(prompt: list[int], max_tokens: int, stop: tuple[int, ...] = ()) -> list[int]:
    """What the toy model generates alone, without any engine."""
    output: list[int] = []
    while len(output) < max_tokens and not (output and output[-1] in stop):
        output.append(next_token(prompt + output))
    return output


class CheckingExecutor:
    """Runs batches on the checking memory."""

    depth = 1

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.slots: dict[int, int] = {}
        self.outputs: deque[StepOutput] = deque()

    def submit(self, batch: Batch) -> None:
        self.outputs.append(StepOutput(tuple(self._run(row) for row in batch.rows)))

    def collect(self) -> StepOutput:
        return self.outputs.popleft()

    def close(self) -> None:
        self.slots.clear()

    def _run(self, row: Row) -> tuple[int, ...]:
        seq, end = row.seq, row.num_computed_tokens + row.num_scheduled_tokens
        hashes = prefix_hashes(seq.token_ids[:end], seq.request.cache_salt)
        slots = [
            seq.block_table[i // self.block_size].block_id * self.block_size + i % self.block_size
            for i in range(end)
        ]
        assert 0 not in {slot // self.block_size for slot in slots}, "the null block was used"
        for i in range(row.num_computed_tokens, end):
            self.slots[slots[i]] = hashes[i]
        wrong = [i for i in range(end) if self.slots.get(slots[i]) != hashes[i]]
        assert not wrong, f"request {seq.request_id} reads foreign KV at positions {wrong}"
        return (next_token(seq.token_ids[:end]),) if row.samples else ()


def toy_core(recorder: Recorder = NO_RECORDER, **settings: object) -> EngineCore:
    """An engine core over the toy model."""
    defaults: dict[str, object] = {
        "block_size": 4,
        "num_blocks": 33,
        "max_model_len": 64,
        "max_num_batched_tokens": 32,
        "max_num_seqs": 8,
    }
    config = EngineConfig(**(defaults | settings))  # type: ignore[arg-type]  # kwargs of a test
    return EngineCore(
        make_scheduler(config, recorder), CheckingExecutor(config.block_size), recorder
    )


def request(request_id: int, prompt: list[int], max_tokens: int = 4, **fields: object) -> Request:
    """A greedy request."""
    params = SamplingParams(temperature=0, max_tokens=max_tokens)
    return Request(
        request_id=request_id,
        prompt_token_ids=prompt,
        params=fields.pop("params", params),  # type: ignore[arg-type]
        arrival_ns=request_id,
        **fields,  # type: ignore[arg-type]
    )


def run(core: EngineCore, *, max_steps: int = 10_000) -> dict[int, list[int]]:
    """Step until nothing is left; returns the output tokens of each request."""
    outputs: dict[int, list[int]] = {}
    ended: list[int] = []
    for _ in range(max_steps):
        if not core.has_work:
            break
        for output in core.step():
            collect(output, outputs, ended)
        check_conservation(core)
    assert not core.has_work, "it did not come to an end"
    assert len(ended) == len(set(ended)), "a request ended twice"
    return outputs


def collect(output: CoreOutput, outputs: dict[int, list[int]], ended: list[int]) -> None:
    """Note what a step brought."""
    outputs.setdefault(output.request_id, []).extend(output.token_ids)
    if output.end is not None:
        ended.append(output.request_id)


def check_conservation(core: EngineCore) -> None:
    """Every block is free or held, and held exactly as often as tables hold it."""
    kv = core.scheduler.kv
    if isinstance(kv, RadixKV):
        check_radix_conservation(kv, core)
    held: dict[int, int] = {}
    for seq in core.scheduler.running:
        for block in seq.block_table:
            held[block.block_id] = held.get(block.block_id, 0) + 1
    assert core.scheduler.config.num_blocks is not None
    assert kv.num_used + kv.num_free == core.scheduler.config.num_blocks - 1
    if isinstance(kv, PagedKV):
        free = [block.block_id for block in kv.pool.free_queue]
        assert len(free) == len(set(free))
        assert {b.block_id: b.ref_count for b in kv.pool.blocks if b.ref_count} == held
        assert not set(free) & set(held)
        assert kv.num_cached_free == sum(b.hash is not None for b in kv.pool.free_queue)
        # A block may have lost its entry before its hash, never the other way round.
        assert sum(b.hash is not None for b in kv.pool.blocks) >= len(kv.cache or ())


def check_radix_conservation(kv: RadixKV, core: EngineCore) -> None:
    """Every block is free, in the tree or private to one sequence; locks are those of the running."""
    nodes = list(kv.cache.root.children.values())
    for node in nodes:
        assert node.parent is not None
        assert node.depth == node.parent.depth + len(node.parent.tokens)
        assert len(node.blocks) * kv.block_size == len(node.tokens)
        nodes += node.children.values()
    locks = dict.fromkeys(nodes, 0)
    private: list[int] = []
    for seq in core.scheduler.running:
        end: Node = kv.held_node(seq)
        assert seq.block_table[: seq.num_cached_blocks] == blocks_to(end)
        private += [block.block_id for block in seq.block_table[seq.num_cached_blocks :]]
        for node in end.path():
            locks[node] += 1
    assert {node: node.locks for node in nodes} == locks
    assert kv.num_cached_free == sum(len(node.blocks) for node in nodes if not node.locks)
    assert kv.cache.num_protected == sum(len(node.blocks) for node in nodes if node.locks)
    assert set(kv.cache.leaves) == {n for n in nodes if not n.locks and not n.children}
    cached = [block.block_id for node in nodes for block in node.blocks]
    free = [block.block_id for block in kv.pool.free_queue]
    everywhere = sorted(free + cached + private)
    assert everywhere == list(range(1, len(kv.pool.blocks)))
