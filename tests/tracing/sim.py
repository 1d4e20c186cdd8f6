"""A small engine that knows the truth: it plays with a block pool, tells a recorder, and can be asked.

It follows vLLM's rules of the pool (as `tracing.kv_mirror` states them) with plain lists, so that what the
trace says of a step can be compared with what really was.
"""

import random
from dataclasses import dataclass, field

from tracing.record import NULL, Code, Mode, Recorder

BlockState = tuple[str, int, int, int | None, dict[int, int]]
"""state, references, node, place in the free queue (1: next out), {request: place in its block table}."""


@dataclass
class Pool:
    """Blocks as lists and dictionaries."""

    num_blocks: int
    free: list[int] = field(init=False)
    holders: dict[int, dict[int, int]] = field(default_factory=dict)
    entry: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.free = list(range(1, self.num_blocks))

    def truth(self, recorder: Recorder) -> dict[int, BlockState]:
        """The state of every block, as the trace should tell it."""
        place = {block: i + 1 for i, block in enumerate(self.free)}
        state: dict[int, BlockState] = {}
        for block in range(1, self.num_blocks):
            held = self.holders.get(block, {})
            node = recorder.mask(self.entry[block]) if block in self.entry else 0
            name = "used" if held else "cached" if node else "free"
            state[block] = (name, len(held), node, place.get(block), dict(held))
        return state

    def copies(self, recorder: Recorder) -> dict[int, int]:
        """How many blocks hold each cached content."""
        counts: dict[int, int] = {}
        for hash_ in self.entry.values():
            node = recorder.mask(hash_)
            counts[node] = counts.get(node, 0) + 1
        return counts


@dataclass
class Sim:
    """Random requests on a pool; each step is recorded as the engine would."""

    recorder: Recorder
    num_blocks: int = 24
    block_size: int = 4
    seed: int = 0
    now: int = 1_000_000
    step: int = 0
    next_request: int = 1
    tables: dict[int, list[int]] = field(default_factory=dict)
    chains: dict[int, list[bytes]] = field(default_factory=dict)
    outputs: dict[int, int] = field(default_factory=dict)
    hits: dict[int, int] = field(default_factory=dict)
    """Blocks found in the cache at admission."""

    def __post_init__(self) -> None:
        self.pool = Pool(self.num_blocks)
        self.random = random.Random(self.seed)
        self.recorder.clock = lambda: self.now
        self.recorder.describe_run(
            policy="vllm",
            cache_kind="hash",
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            model="toy",
            config={"seed": self.seed},
        )

    def run_step(self) -> None:
        """One step: somebody may leave, somebody may come, everybody grows; then the step's records."""
        start = self.tick()
        self.recorder.begin_step(self.step, start)
        running = list(self.tables)
        self.random.shuffle(running)
        for request in running:
            if self.random.random() < 0.15:
                self.let_go(request)
        if self.random.random() < 0.6:
            self.admit()
        for request in list(self.tables):
            if self.random.random() < 0.5:
                self.grow(request)
        self.end_step(start)

    def end_step(self, start: int) -> None:
        """Rows, tokens, kernels and the step's own record."""
        rows = list(self.tables)
        scheduled = self.tick()
        for request in rows:
            is_new = request not in self.outputs
            code = Code.ADMIT_NEW if is_new else Code.RUN_DECODE
            hit = 4 * self.hits.get(request, 0) if is_new else 0
            self.recorder.row((request, code, 1, hit, 20, is_new, hit, 0, 0, 0, 1, 0))
        collected = self.tick()
        self.recorder.tokens(collected, [(r, self.sample(r), 7) for r in rows])
        marks = [scheduled + i for i in range(4)]
        names = [("embed", -1), ("attention", 0), ("mlp", 0)]
        self.recorder.kernels(names, marks, len(rows))
        self.recorder.rank_step((scheduled, collected, 0, 0, 0, 0, 1, len(rows)))
        free, cached = self.pool.free, self.pool.entry
        num_cached_free = sum(block in cached for block in free)
        self.recorder.end_step(
            start_ns=start,
            scheduled_ns=scheduled,
            submitted_ns=scheduled,
            collected_ns=collected,
            end_ns=self.tick(),
            mode=Mode.DECODE if rows else Mode.EMPTY,
            num_rows=len(rows),
            num_tokens=len(rows),
            num_prefill_tokens=0,
            num_draft_tokens=0,
            num_padded_tokens=0,
            token_budget=64,
            max_num_seqs=8,
            num_running=len(rows),
            num_waiting=0,
            used_blocks=self.num_blocks - 1 - len(free),
            cached_free_blocks=num_cached_free,
            free_blocks=len(free) - num_cached_free,
            num_preempted=0,
            num_finished=0,
            new_token_ratio_1e6=NULL,
            in_flight=0,
        )
        self.step += 1

    def admit(self) -> None:
        """A request whose prompt may share a chain of blocks with others."""
        request = (1 << 32) + self.next_request
        self.next_request += 1
        family = self.random.randrange(3)
        chain = [f"{family}/{i}".encode() for i in range(self.random.randrange(1, 5))]
        hit: list[int] = []
        for hash_ in chain:
            found = [block for block, entry in self.pool.entry.items() if entry == hash_]
            if not found or self.random.random() < 0.2:
                break
            hit.append(min(found))
        self.tables[request], self.chains[request] = [], chain
        for i, block in enumerate(hit):
            if block in self.pool.free:
                self.pool.free.remove(block)
            self.pool.holders.setdefault(block, {})[request] = i
        self.tables[request] += hit
        self.hits[request] = len(hit)
        self.recorder.blocks(Code.KV_HIT, hit, request, idx=0)
        code = Code.HIT_PART if hit else Code.HIT_NONE
        self.recorder.decision(code, request, 4 * len(hit), 20, 0, 4)
        self.grow(request, len(chain) - len(hit))

    def grow(self, request: int, num_blocks: int = 1) -> None:
        """Blocks from the front of the queue; full ones enter the cache."""
        table = self.tables[request]
        if num_blocks <= 0 or num_blocks > len(self.pool.free):
            return
        ids = [self.pool.free.pop(0) for _ in range(num_blocks)]
        lost = [block for block in ids if self.pool.entry.pop(block, None) is not None]
        self.recorder.blocks(Code.KV_EVICT, lost, None, other=request)
        self.recorder.blocks(Code.KV_ALLOC, ids, request, idx=len(table))
        for block in ids:
            self.pool.holders[block] = {request: len(table)}
            table.append(block)
        chain = self.chains[request]
        for i in range(len(table) - num_blocks, min(len(chain), len(table))):
            code = Code.KV_CACHED_COPY if chain[i] in self.pool.entry.values() else Code.KV_CACHED
            self.pool.entry[table[i]] = chain[i]
            parent = chain[i - 1] if i else None
            self.recorder.cached(code, table[i], request, i, chain[i], parent)

    def let_go(self, request: int) -> None:
        """It ended: its blocks go back, the tail first."""
        shared, back, front = [], [], []
        for block in reversed(self.tables.pop(request)):
            del self.pool.holders[block][request]
            if self.pool.holders[block]:
                shared.append(block)
            elif block in self.pool.entry:
                back.append(block)
            else:
                front.append(block)
        self.pool.free = front + self.pool.free + back
        self.recorder.blocks(Code.KV_UNREF, shared, request)
        self.recorder.blocks(Code.KV_FREE_BACK, back, request)
        self.recorder.blocks(Code.KV_FREE_FRONT, front, request)

    def sample(self, request: int) -> int:
        """Place of its next output token."""
        k = self.outputs.get(request, 0)
        self.outputs[request] = k + 1
        return k

    def tick(self) -> int:
        """Time goes on."""
        self.now += self.random.randrange(1_000, 50_000)
        return self.now
