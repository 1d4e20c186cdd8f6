"""A radix tree over pages: the nodes, how far two token runs agree, and how an edge is cut in two.

    root ─ [1 2 3 4 5 6] ─ [7 8]          looking up 1 2 3 4 9 9 with pages of 2 agrees for 4 tokens
                                          and cuts the edge there, although nothing is inserted:

    root ─ [1 2 3 4] ─ [5 6] ─ [7 8]      the upper half is the new node, the lower half keeps its number

An edge holds whole pages, so each node stands for a run of blocks. Children are found by namespace and first
page; two edges below one node never begin with the same page.

Invariant: parents are locked at least as often as their children; `depth + len(tokens)` of a node is the
`depth` of each of its children.

Source: RadixAttention (Zheng et al. 2024, section 3); SGLang 0.5.23
`sglang/srt/mem_cache/unified_cache/unified_tree_core.py` (UnifiedTreeNode, _split_node), `radix_cache.py`
(RadixKey).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from engine.kv.block_pool import Block

Namespace = tuple[str | None, str | None]
"""(extra_key, cache_salt): equal tokens are shared only where both are equal."""

ChildKey = tuple[Namespace, tuple[int, ...]]


class Node:
    """A run of whole pages in the tree; the root holds none."""

    __slots__ = (
        "access",
        "blocks",
        "children",
        "created",
        "depth",
        "hits",
        "locks",
        "longest",
        "namespace",
        "node_id",
        "parent",
        "priority",
        "tokens",
    )

    def __init__(
        self,
        node_id: int,
        parent: "Node | None",
        tokens: list[int],
        blocks: list[Block],
        namespace: Namespace,
        depth: int,
    ) -> None:
        self.node_id = node_id
        self.parent = parent
        """None: the root, or no longer in the tree."""
        self.tokens = tokens
        self.blocks = blocks
        self.namespace = namespace
        self.depth = depth
        """Tokens above it."""
        self.children: dict[ChildKey, Node] = {}
        self.locks = 0
        """Running sequences whose path holds it."""
        self.hits = 0
        """Insertions that passed or made it, once per sequence; lookups do not count."""
        self.priority = 0
        self.access = self.created = 0
        """Ticks of the tree's clock; the halves of a cut edge share `created`."""
        self.longest = depth + len(tokens)
        """Tokens of the longest path that ever led through it (tlru)."""

    def __repr__(self) -> str:
        return (
            f"Node({self.node_id}, {len(self.tokens)} tokens at {self.depth}, locks={self.locks})"
        )

    def path(self) -> "Iterator[Node]":
        """This node and its ancestors, upwards, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


@dataclass(frozen=True, slots=True)
class Match:
    """The longest cached prefix of a lookup."""

    node: Node
    """The root, if nothing matched."""
    num_tokens: int

    def blocks(self) -> list[Block]:
        """The blocks of the prefix, in order."""
        return blocks_to(self.node)


def blocks_to(node: Node) -> list[Block]:
    """All blocks from the root to the end of this node."""
    runs = [above.blocks for above in node.path()]
    return [block for run in reversed(runs) for block in run]


def child_key(tokens: list[int], at: int, page_size: int, namespace: Namespace) -> ChildKey:
    """Under what a parent finds the child that begins with the page at this position."""
    return namespace, tuple(tokens[at : at + page_size])


def shared_length(edge: list[int], tokens: list[int], at: int, end: int, page_size: int) -> int:
    """How many tokens of the edge agree with `tokens[at:end]`, in whole pages.

    Slices are compared, not tokens: one comparison if the edge agrees, else a bisection to the difference.
    """
    high = min(len(edge), end - at)
    if edge[:high] == tokens[at : at + high]:
        return high // page_size * page_size
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        if edge[low:middle] == tokens[at + low : at + middle]:
            low = middle
        else:
            high = middle
    return low // page_size * page_size


def split(lower: Node, length: int, node_id: int, page_size: int) -> Node:
    """Cut an edge after `length` tokens. The upper half is new, with the lower's locks, hits and priority."""
    assert lower.parent is not None
    assert 0 < length < len(lower.tokens)
    num_blocks = length // page_size
    upper = Node(
        node_id,
        lower.parent,
        lower.tokens[:length],
        lower.blocks[:num_blocks],
        lower.namespace,
        lower.depth,
    )
    upper.locks, upper.hits, upper.priority = lower.locks, lower.hits, lower.priority
    upper.created, upper.longest = lower.created, lower.longest
    # Takes the lower's place in its parent's order of children.
    lower.parent.children[child_key(lower.tokens, 0, page_size, lower.namespace)] = upper
    lower.tokens, lower.blocks = lower.tokens[length:], lower.blocks[num_blocks:]
    lower.depth += length
    lower.parent = upper
    upper.children[child_key(lower.tokens, 0, page_size, lower.namespace)] = lower
    return upper
