"""Radix trees of golden files and ours in one form, so that they can be compared as values.

Node numbers are each side's own business. A node is called by the tokens from the root to its end (and its
namespace) instead; so two trees are equal when they are equal as dictionaries, recency and all.
"""

from collections.abc import Iterator
from typing import Any

from engine.kv.radix import RadixKV
from engine.kv.radix_tree import Node

Name = tuple[str | None, str | None, tuple[int, ...]]
"""(extra_key, cache_salt, tokens from the root on)."""


def nodes_of(kv: RadixKV) -> Iterator[Node]:
    """All nodes but the root, parents before children."""
    stack = list(kv.cache.root.children.values())
    while stack:
        node = stack.pop()
        yield node
        stack += node.children.values()


def sizes_of(kv: RadixKV) -> list[int]:
    """Tokens [evictable, protected, free]; what requests hold privately is in none of them."""
    blocks = (kv.cache.num_evictable, kv.cache.num_protected, kv.pool.num_free)
    return [num * kv.block_size for num in blocks]


def our_state(kv: RadixKV, like: dict[str, Any]) -> dict[str, Any]:
    """Sizes, nodes, recency and evictable leaves, as far as `like`, one of theirs, has them."""
    if "tree" not in like:
        return {"sizes": sizes_of(kv)}
    with_slots = any("slots" in node for node in like["tree"])
    names = {node: name_of(node) for node in nodes_of(kv)}
    tree = {}
    for node, name in names.items():
        fields: dict[str, Any] = {"lock": node.locks, "hits": node.hits, "prio": node.priority}
        if with_slots:
            fields["slots"] = slots_of(node, kv.block_size)
        tree[name] = fields
    return {
        "sizes": sizes_of(kv),
        "tree": tree,
        "old_to_new": [names[node] for node in sorted(names, key=lambda node: node.access)],
        "leaves": sorted((names[node] for node in kv.cache.leaves), key=repr),
    }


def their_state(state: dict[str, Any]) -> dict[str, Any]:
    """The same of a golden file."""
    if "tree" not in state:
        return {"sizes": state["sizes"]}
    names = their_names(state)
    optional = {"prio": 0}
    tree = {
        names[node["id"]]: optional
        | {field: node[field] for field in ("lock", "hits", "prio", "slots") if field in node}
        for node in state["tree"]
    }
    return {
        "sizes": state["sizes"],
        "tree": tree,
        "old_to_new": [names[i] for i in state["old_to_new"]],
        "leaves": sorted((names[i] for i in state["leaves"]), key=repr),
    }


def their_names(state: dict[str, Any]) -> dict[int, Name]:
    """What each of their nodes is called."""
    by_id = {node["id"]: node for node in state["tree"]}

    def tokens(i: int) -> tuple[int, ...]:
        return () if i == 0 else (*tokens(by_id[i]["up"]), *by_id[i]["key"])

    return {
        i: (node.get("extra_key"), node.get("cache_salt"), tokens(i)) for i, node in by_id.items()
    }


def name_of(node: Node) -> Name:
    """What one of our nodes is called."""
    runs = [above.tokens for above in node.path()]
    return (*node.namespace, tuple(token for run in reversed(runs) for token in run))


def slots_of(node: Node, page_size: int) -> list[int]:
    """Its places in the pool, one per token."""
    return [block.block_id * page_size + i for block in node.blocks for i in range(page_size)]


class NodeIds:
    """Which of their node numbers is which of our nodes, learnt as they are named."""

    def __init__(self, kv: RadixKV) -> None:
        self._theirs: dict[Node, int] = {kv.cache.root: 0}
        self._known = {0}

    def learn(self, kv: RadixKV, state: dict[str, Any]) -> None:
        """From a whole tree of theirs, which ours is equal to."""
        if "tree" in state:
            ours = {name_of(node): node for node in nodes_of(kv)}
            for i, name in their_names(state).items():
                self._bind(ours[name], i)

    def of(self, node: Node, expected: int) -> int | None:
        """Their number of our node; a node never named before is taken to be the expected one."""
        if node not in self._theirs and expected not in self._known:
            self._bind(node, expected)
        return self._theirs.get(node)

    def of_all(self, nodes: list[Node], expected: list[int]) -> list[int]:
        """Their numbers of nodes that are gone, in order."""
        new = [i for i in expected if i not in self._known]
        for node in nodes:
            if node not in self._theirs and new:
                self._bind(node, new.pop(0))
        return sorted(self._theirs.get(node, -1) for node in nodes)

    def _bind(self, node: Node, theirs: int) -> None:
        self._theirs[node] = theirs
        self._known.add(theirs)
