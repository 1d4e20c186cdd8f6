"""Which leaf of the radix tree is evicted next: one sort key per policy, and a heap that forgets lazily.

The idea: only unlocked leaves can go, so eviction is a priority queue of leaves. Their keys change whenever
somebody looks at them, far more often than anything is evicted; so a change just pushes the leaf again, and
an entry that no longer agrees with its leaf is dropped when it comes up.

Invariant: each evictable leaf has exactly one entry with its current key; the heap is never more than about
twice as long as there are leaves.

Source: SGLang 0.5.23 `sglang/srt/mem_cache/evict_policy.py`; T-LRU: Zhang et al. 2025 (arXiv:2510.15152).
"""

import heapq
from collections.abc import Callable, Iterator

from engine.config_sglang import SglangConfig
from engine.kv.radix_tree import Node

SortKey = tuple[int, ...]
"""Smallest goes first."""


def eviction_key(config: SglangConfig) -> Callable[[Node], SortKey]:
    """The sort key of `config.radix_eviction_policy`."""
    keys: dict[str, Callable[[Node], SortKey]] = {
        "lru": lambda node: (node.access,),
        "lfu": lambda node: (node.hits, node.access),
        # Segmented: what was used often enough is protected as long as anything else is left.
        "slru": lambda node: (node.hits >= config.slru_protected_threshold, node.access),
        "priority": lambda node: (node.priority, node.access),
        "tlru": lambda node: (not _is_beyond_budget(node, config), node.access),
        "fifo": lambda node: (node.created,),
        "mru": lambda node: (-node.access,),
        "filo": lambda node: (-node.created,),
    }
    return keys[config.radix_eviction_policy]


def _is_beyond_budget(node: Node, config: SglangConfig) -> bool:
    """Tail-optimised: would the conversation's next prefill stay below the threshold without this node?"""
    budget = node.longest + config.tlru_next_prompt_estimate - config.tlru_threshold
    return node.depth >= max(budget, 0)


class LeafHeap:
    """The evictable leaves in eviction order."""

    def __init__(self, key: Callable[[Node], SortKey]) -> None:
        self._key = key
        self._current: dict[Node, SortKey] = {}
        self._heap: list[tuple[SortKey, int, Node]] = []
        self._num_pushed = 0

    def __iter__(self) -> Iterator[Node]:
        return iter(self._current)

    def offer(self, node: Node) -> None:
        """The node is an evictable leaf now, or one whose key may have changed."""
        key = self._key(node)
        if self._current.get(node) == key:
            return
        self._current[node] = key
        self._push(key, node)
        if len(self._heap) > 2 * len(self._current) + 64:
            self._heap.clear()
            for leaf, leaf_key in self._current.items():
                self._push(leaf_key, leaf)

    def withdraw(self, node: Node) -> None:
        """The node was locked, or got a child."""
        self._current.pop(node, None)

    def pop(self) -> Node | None:
        """Take the next one to evict; None when there is none."""
        while self._heap:
            key, _, node = heapq.heappop(self._heap)
            if self._current.get(node) == key:
                del self._current[node]
                return node
        return None

    def _push(self, key: SortKey, node: Node) -> None:
        self._num_pushed += 1  # breaks ties, so that nodes themselves are never compared
        heapq.heappush(self._heap, (key, self._num_pushed, node))
