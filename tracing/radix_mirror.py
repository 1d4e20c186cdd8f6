"""The radix tree of the prefix cache, kept a second time from what the engine says it did to it.

The engine says one sentence per act, about one node, with that node's state after it. Three acts mean more
than they say, because they reach up to the root: a touch makes each ancestor one tick older than its child, a
lock or unlock moves every ancestor's count by one. This file spells that out, so that each row of the trace
is the state of one node after the act.

Invariant: depth + num_tokens of a node is the depth of its children; locks of a parent >= those of a child.
Source: `Kind.NODE` in `tracing.layout`; the rules of SGLang 0.5.23 `unified_tree_core.py`, mirrored.
"""

from dataclasses import dataclass, field

from tracing.codes import Code

State = tuple[int, int, int, int, int, int, int, int]
"""parent_id, num_tokens, depth, lock_count, hits, priority, access, namespace_id."""


@dataclass(slots=True)
class RadixNode:
    """A run of tokens that requests share."""

    parent: int
    """0: the root."""
    num_tokens: int
    depth: int
    """Tokens above it."""
    locks: int
    """Running requests whose path holds it."""
    hits: int
    priority: int
    access: int
    """Ticks of the tree's clock: the smallest was used longest ago."""
    namespace_id: int
    blocks: list[int] = field(default_factory=list)
    """Ids, in the order of its tokens."""


class RadixMirror:
    """The tree of one engine, by the engine's own node numbers."""

    def __init__(self) -> None:
        self.nodes: dict[int, RadixNode] = {}
        self.newest = 0
        """Node of the last NODE_NEW: the blocks that enter the cache next are its."""
        self._locks: dict[int, int] = {}
        """Request -> nodes that it has locked itself, not by way of a child: 1, and 2 while it moves on."""

    def act(self, code: int, node_id: int, state: State) -> list[int]:
        """Apply one record of kind NODE; returns the nodes whose state changed, the one it is about first."""
        before = self.nodes.get(node_id)
        node = self.nodes[node_id] = RadixNode(*state, before.blocks if before else [])
        if code == Code.NODE_NEW:
            self.newest = node_id
        changed = [node_id]
        if code not in (Code.NODE_TOUCH, Code.NODE_LOCK, Code.NODE_UNLOCK):
            return changed
        above = self.nodes.get(node.parent)
        while above is not None:
            if code == Code.NODE_TOUCH:
                above.access = node.access - len(changed)
            else:
                above.locks += 1 if code == Code.NODE_LOCK else -1
            changed.append(self.nodes[changed[-1]].parent)
            above = self.nodes.get(above.parent)
        return changed

    def split_blocks(self, node_id: int, other_id: int, block_size: int) -> list[int]:
        """An edge was cut: its first blocks are the upper half's now. Returns them.

        A cut has two records, of the upper half and then of the lower; only the first one moves blocks.
        """
        upper, lower = self.nodes[node_id], self.nodes.get(other_id)
        if upper.blocks or lower is None:
            return []
        num = upper.num_tokens // block_size
        upper.blocks, lower.blocks = lower.blocks[:num], lower.blocks[num:]
        return upper.blocks

    def take_block(self, block_id: int) -> int:
        """A block enters the cache: it is the newest node's. Returns that node."""
        if self.newest in self.nodes:
            self.nodes[self.newest].blocks.append(block_id)
        return self.newest

    def lets_go(self, code: int, request_id: int) -> bool:
        """Count a request's own locks; True if it lets go of the last one, and with it of its path."""
        match code:
            case Code.NODE_LOCK:
                self._locks[request_id] = self._locks.get(request_id, 0) + 1
            case Code.NODE_UNLOCK:
                left = self._locks.pop(request_id, 1) - 1
                if left:
                    self._locks[request_id] = left
                return not left
        return False
