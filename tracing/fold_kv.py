"""Block and cache records as rows, and keyframes between them.

A row of kv_event or cache_event carries the state after it, as `KvMirror` works it out. A keyframe writes the
whole state down now and then, so that "the pool at step n" reads one keyframe and at most 1,000 steps of
events, however long the run.

Invariant: the state at a record = the last keyframe before it + the rows between; which keyframe one starts
from makes no difference.
"""

from collections.abc import Sequence

from tracing.codes import Code
from tracing.kv_mirror import BlockRun, Content, KvMirror
from tracing.radix_mirror import State
from tracing.rows import Row, Rows

KEYFRAME_STEPS = 1_000
KEYFRAME_ROWS = 200_000

At = tuple[int, int, int]
"""(step, seq, epoch ns)."""
Who = tuple[int | None, int | None]
"""(request, other)."""


class KvFold:
    """Rows of kv_event, cache_event and their snapshots, for one engine."""

    def __init__(self, rows: Rows) -> None:
        self.engine_id: int | None = None
        self._rows = rows
        self._mirror = KvMirror()
        self._keyframe_step = 0
        self._num_rows = 0
        """Of kv_event, since the last keyframe."""

    def set_block_size(self, block_size: int | None) -> None:
        """Tokens per block, as the core says at its start."""
        self._mirror.block_size = block_size

    def blocks(self, at: At, code: int, who: Who, idx: int | None, ids: Sequence[int]) -> None:
        """One record of kind BLOCKS."""
        step, seq, ts_ns = at
        runs, lost = self._mirror.act(code, ids, who[0], idx, step)
        for j, run in runs:
            self._kv_event((step, seq + j, ts_ns), code, who, run)
        for j, hash_, content in lost:
            self._content_event((step, seq + j, ts_ns), code, hash_, content, (None, who[1]))

    def cached(
        self, at: At, code: int, request_id: int, block_id: int, idx: int, hash_: int, parent: int
    ) -> None:
        """One record of kind CACHED."""
        run = self._mirror.cache(block_id, idx, hash_, parent, at[0])
        self._kv_event(at, code, (request_id, None), run)
        content = self._mirror.contents[hash_]
        self._content_event(at, code, hash_, content, (request_id, None))

    def node(self, at: At, code: int, who: Who, node_id: int, state: State) -> None:
        """One record of kind NODE. What it reaches besides gets rows too, under the same seq."""
        nodes, runs = self._mirror.act_on_node(code, node_id, state, *who)
        alive = code != Code.NODE_EVICT
        for changed in nodes:
            row = (self.engine_id, *at, code, *self._node_columns(changed)[:2], alive)
            rest = (*self._node_columns(changed)[2:], changed != node_id, *who)
            self._rows.add("cache_event", (*row, *rest))
        if not alive:
            del self._mirror.tree.nodes[node_id]
        for run in runs:
            self._kv_event(at, code, who, run)

    def maybe_keyframe(self, step: int, seq: int) -> None:
        """At the end of a step: write a keyframe if it is time."""
        if step - self._keyframe_step >= KEYFRAME_STEPS or self._num_rows >= KEYFRAME_ROWS:
            self.keyframe(step, seq)

    def keyframe(self, step: int, seq: int) -> None:
        """Write the whole state down, as it is after the record `seq`."""
        at = (self.engine_id, step, seq)
        for block_id, run, holders, places, touched in self._mirror.snapshot():
            state = (run.state, run.ref_count, run.node, run.free_key)
            self._rows.add("kv_snapshot", (*at, block_id, *state, holders, places, touched))
        for hash_, content in self._mirror.contents.items():
            self._rows.add("cache_snapshot", (*at, *self._content_columns(hash_, content)))
        for node_id in self._mirror.tree.nodes:
            self._rows.add("cache_snapshot", (*at, *self._node_columns(node_id)))
        self._keyframe_step, self._num_rows = step, 0

    def _kv_event(self, at: At, code: int, who: Who, run: BlockRun) -> None:
        where = (run.block_id, run.num_blocks, *who, run.idx)
        state = (run.state, run.ref_count, run.node, run.free_key, run.idle_steps)
        self._rows.add("kv_event", (self.engine_id, *at, code, *where, *state))
        self._num_rows += 1

    def _content_event(self, at: At, code: int, hash_: int, content: Content, who: Who) -> None:
        columns = self._content_columns(hash_, content)
        alive = content.copies > 0
        row = (self.engine_id, *at, code, *columns[:2], alive, *columns[2:], False, *who)
        self._rows.add("cache_event", row)

    def _content_columns(self, hash_: int, content: Content) -> Row:
        """node_id, parent_id, num_tokens, depth, num_copies, and five that only a tree has."""
        size = self._mirror.block_size
        return (hash_, content.parent, size, content.depth, content.copies, *(None,) * 5)

    def _node_columns(self, node_id: int) -> Row:
        node = self._mirror.tree.nodes[node_id]
        place = (node_id, node.parent, node.num_tokens, node.depth, 1)
        return (*place, node.locks, node.hits, node.priority, node.access, node.namespace_id)
