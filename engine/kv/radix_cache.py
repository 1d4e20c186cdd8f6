"""The prefix cache as a radix tree: token runs that requests share, and the locks of those that use them.

A lookup walks down while whole pages agree, an insertion does the same and hangs what is left below as a new
leaf. So a prefix is stored once, however many requests have it; a second copy is handed back to whoever
brought it. What running sequences use is locked, up to the root; what nobody uses can be evicted, leaf by
leaf.

Recency is a counter. A lookup makes the found node the newest and each ancestor a little older, an insertion
touches from the top down; cutting an edge makes the lower half recent too, although nobody asked for it.

Invariant: num_evictable + num_protected blocks are in the tree; a node is protected while its lock count is
above 0.

Source: RadixAttention (Zheng et al. 2024, section 3); SGLang 0.5.23
`sglang/srt/mem_cache/unified_cache/unified_tree_core.py` (match_prefix, begin_insert, evict).
"""

from dataclasses import dataclass

from engine.config_sglang import SglangConfig
from engine.kv.block_pool import Block
from engine.kv.radix_eviction import LeafHeap, eviction_key
from engine.kv.radix_tree import Match, Namespace, Node, child_key, shared_length, split
from tracing.record import Code, Level, Recorder


@dataclass(frozen=True, slots=True)
class Inserted:
    """What became of an insertion."""

    node: Node
    """Where it ended."""
    num_cached_tokens: int
    """How many of its tokens the tree had already."""
    duplicates: list[list[Block]]
    """The caller's blocks that the tree has no use for, a run per node passed."""


class RadixCache:
    """Which blocks hold which prefix."""

    def __init__(self, page_size: int, config: SglangConfig, recorder: Recorder) -> None:
        self.page_size = page_size
        self.root = Node(0, None, [], [], (None, None), 0)
        self.leaves = LeafHeap(eviction_key(config))
        """Those that may be evicted."""
        self.num_evictable = 0
        """Blocks in unlocked nodes."""
        self.num_protected = 0
        """Blocks in locked nodes."""
        self._recorder = recorder
        self._clock = self._num_nodes = 0

    # -- looking up ------------------------------------------------------------------------------

    def match(
        self,
        tokens: list[int],
        limit: int,
        namespace: Namespace,
        request_id: int | None = None,
    ) -> Match:
        """Longest cached prefix of `tokens[:limit]` in whole pages. Makes it recent; may cut an edge."""
        end = limit // self.page_size * self.page_size
        node, at, path = self.root, 0, list[Node]()
        while at < end:
            child = node.children.get(child_key(tokens, at, self.page_size, namespace))
            if child is None:
                break
            length = shared_length(child.tokens, tokens, at, end, self.page_size)
            node = child if length == len(child.tokens) else self._split(child, length, request_id)
            path.append(node)
            at += length
        for found in path:
            found.access = self._tick()
        if path:
            self._settle(node)
            self._record(Code.NODE_TOUCH, node, request_id)
        return Match(node, at)

    # -- inserting -------------------------------------------------------------------------------

    def insert(
        self,
        tokens: list[int],
        blocks: list[Block],
        namespace: Namespace,
        *,
        priority: int = 0,
        num_owned: int = 0,
        num_counted: int = 0,
        request_id: int | None = None,
    ) -> Inserted:
        """Enter the whole pages of `tokens`, which the caller computed into `blocks`.

        num_owned: tokens at the head for which the caller already uses the tree's blocks, so that no block
        there is a duplicate. num_counted: tokens that the caller inserted before, so that they get no second
        hit. Nodes passed and made rise to `priority`.
        """
        size, end = self.page_size, len(tokens) // self.page_size * self.page_size
        node, at, duplicates = self.root, 0, list[list[Block]]()
        while at < end:
            child = node.children.get(child_key(tokens, at, size, namespace))
            if child is None:
                break
            length = shared_length(child.tokens, tokens, at, end, size)
            if length < len(child.tokens):
                node = self._split(child, length, request_id)
            else:
                node = child
                node.access = self._tick()
            node.priority = max(node.priority, priority)
            node.hits += at + length > num_counted
            self._settle(node)
            code = Code.NODE_HIT if at + length > num_counted else Code.NODE_TOUCH
            self._record(code, node, request_id)
            if run := blocks[max(at, num_owned) // size : (at + length) // size]:
                duplicates.append(run)
            at += length
        cached = at
        if at < end:
            node = self._add_leaf(node, tokens[at:end], blocks[at // size : end // size], namespace)
            node.priority = priority
            node.hits += end > num_counted
            self._settle(node)
            self._record(Code.NODE_NEW, node, request_id)
            ids = [block.block_id for block in node.blocks]
            if request_id is not None:
                self._recorder.blocks(Code.KV_CACHED, ids, request_id, idx=at // size)
        return Inserted(node, cached, duplicates)

    def cut(
        self, tokens: list[int], namespace: Namespace, priority: int, request_id: int | None = None
    ) -> None:
        """Cut the path of `tokens`, which is in the tree, where they end, and raise their priority.

        So what comes below, the output of a request, can be evicted without its prompt.
        """
        num = len(tokens)
        done = self.insert(
            tokens,
            [],
            namespace,
            priority=priority,
            num_owned=num,
            num_counted=num,
            request_id=request_id,
        )
        assert done.num_cached_tokens == num // self.page_size * self.page_size
        self._record(Code.NODE_CUT, done.node, request_id)

    # -- locks -----------------------------------------------------------------------------------

    def lock(self, node: Node, request_id: int | None = None) -> None:
        """A sequence uses the path to this node: none of it can be evicted."""
        for held in node.path():
            if held.locks == 0:
                self.num_evictable -= len(held.blocks)
                self.num_protected += len(held.blocks)
                self.leaves.withdraw(held)
            held.locks += 1
        if node is not self.root:
            self._record(Code.NODE_LOCK, node, request_id)

    def unlock(self, node: Node, request_id: int | None = None) -> None:
        """Undo one `lock` of this node."""
        for held in node.path():
            assert held.locks > 0, f"{held} unlocked twice"
            held.locks -= 1
            if held.locks == 0:
                self.num_evictable += len(held.blocks)
                self.num_protected -= len(held.blocks)
                self._settle(held)
        if node is not self.root:
            self._record(Code.NODE_UNLOCK, node, request_id)

    def num_idle(self, node: Node) -> int:
        """Blocks on the path that are evictable now, and would not be if it were locked."""
        return sum(len(above.blocks) for above in node.path() if above.locks == 0)

    # -- evicting --------------------------------------------------------------------------------

    def evict(self, num_tokens: int, other: int | None = None) -> list[Node]:
        """Take whole leaves out, in the order of the policy, until at least so many tokens are gone.

        A parent joins the candidates when its last child goes. other: for which request. The nodes come back
        with their blocks, which are the caller's now.
        """
        evicted, gone = list[Node](), 0
        while gone < num_tokens and (leaf := self.leaves.pop()) is not None:
            parent = leaf.parent
            assert parent is not None
            self._record(Code.NODE_EVICT, leaf, None, other)
            del parent.children[child_key(leaf.tokens, 0, self.page_size, leaf.namespace)]
            leaf.parent = None
            self.num_evictable -= len(leaf.blocks)
            gone += len(leaf.tokens)
            evicted.append(leaf)
            self._settle(parent)
        return evicted

    # -- inside ----------------------------------------------------------------------------------

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _new_id(self) -> int:
        self._num_nodes += 1
        return self._num_nodes

    def _settle(self, node: Node) -> None:
        """Put the node among the evictable leaves, with its current key, or take it out."""
        if node.locks == 0 and not node.children and node.parent is not None:
            self.leaves.offer(node)
        else:
            self.leaves.withdraw(node)

    def _split(self, lower: Node, length: int, request_id: int | None) -> Node:
        upper = split(lower, length, self._new_id(), self.page_size)
        upper.access, lower.access = self._tick(), self._tick()
        self._settle(lower)
        self._record(Code.NODE_SPLIT, upper, request_id, lower.node_id)
        self._record(Code.NODE_SPLIT, lower, request_id, upper.node_id)
        return upper

    def _add_leaf(
        self, parent: Node, tokens: list[int], blocks: list[Block], namespace: Namespace
    ) -> Node:
        depth = parent.depth + len(parent.tokens)
        leaf = Node(self._new_id(), parent, tokens, blocks, namespace, depth)
        leaf.access = leaf.created = self._tick()
        parent.children[child_key(tokens, 0, self.page_size, namespace)] = leaf
        self.num_evictable += len(blocks)
        self._settle(parent)
        for above in parent.path():
            if above.longest >= leaf.longest:
                break  # so are its ancestors
            above.longest = leaf.longest
        return leaf

    def _record(
        self, code: Code, node: Node, request_id: int | None, other: int | None = None
    ) -> None:
        """Note the node's state after the act; see `Kind.NODE` for which acts reach up to the root."""
        if self._recorder.level < Level.BLOCKS:
            return
        assert node.parent is not None
        names = [name for name in node.namespace if name is not None]
        namespace = self._recorder.intern("namespace", "/".join(names)) if names else 0
        state = (node.locks, node.hits, node.priority, node.access)
        place = (node.node_id, node.parent.node_id, len(node.tokens), node.depth)
        self._recorder.node(code, (*place, *state, namespace), request_id, other)
