"""Replay of golden files of kind radix: operations on the tree alone."""

from collections.abc import Iterator
from typing import Any

from engine.kv.radix_tree import Namespace, Node
from workbench.conformance.sglang_setup import make_kv
from workbench.conformance.sglang_tree import NodeIds, nodes_of, our_state, slots_of, their_state

MECHANISM = "sglang radix cache"
TREE = "sglang/srt/mem_cache/unified_cache/unified_tree_core.py"
RULES = {
    "matched": f"{TREE} match_prefix: whole pages; a partly matched edge is cut",
    "slots": f"{TREE} begin_insert: the first copy stays",
    "already_cached": f"{TREE} begin_insert: how much was there",
    "end_node": f"{TREE}: where the walk ended",
    "evicted": f"{TREE} evict_device_next_node: whole leaves until enough is gone",
    "gone": "sglang/srt/mem_cache/evict_policy.py: smallest key first; a parent follows its last child",
    "sizes": f"{TREE} inc_lock_ref, dec_lock_ref: evictable or protected",
    "tree": f"{TREE}: edges, locks, hits and priorities",
    "old_to_new": f"{TREE} _touch_node, _split_node: recency",
    "leaves": f"{TREE} _is_device_leaf: unlocked, without children",
}


def num_steps(case: dict[str, Any]) -> int:
    """One per operation."""
    return len(case["steps"])


def steps(case: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(theirs, ours) after each operation."""
    play = _Play(case["config"])
    for step in case["steps"]:
        theirs = step["got"] | {"gone": sorted(step.get("gone", []))} | their_state(step["after"])
        ours = {"gone": []} | play.do(step["do"], theirs)
        ours |= our_state(play.kv, step["after"])
        yield theirs, ours
        play.ids.learn(play.kv, step["after"])


class _Play:
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.kv = make_kv(config)
        self.ids = NodeIds(self.kv)
        self.locked: dict[str, Node] = {}

    def do(self, do: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
        namespace: Namespace = do.get("extra_key"), do.get("cache_salt") or None
        match do["op"]:
            case "insert":
                return self._insert(do, namespace, theirs)
            case "match" | "touch" | "lock":
                return self._match(do, namespace, theirs)
            case "unlock":
                self.kv.cache.unlock(self.locked.pop(do["name"]))
                return {}
            case "evict":
                nodes = self.kv.cache.evict(do["n"])
                for node in nodes:
                    self.kv.put_back(node.blocks)
                evicted = sum(len(node.tokens) for node in nodes)
                return {"evicted": evicted, "gone": self.ids.of_all(nodes, theirs["gone"])}
            case _:
                nodes = list(nodes_of(self.kv))
                gone = self.ids.of_all(nodes, theirs["gone"])
                self.kv = make_kv(self.config)
                self.ids = NodeIds(self.kv)
                return {"gone": gone}

    def _insert(
        self, do: dict[str, Any], namespace: Namespace, theirs: dict[str, Any]
    ) -> dict[str, Any]:
        done = self.kv.cache.insert(
            do["tokens"],
            self.kv.pool.take(len(do["tokens"]) // self.kv.block_size),
            namespace,
            priority=do.get("priority", 0),
            num_owned=do.get("own_from", 0),
            num_counted=do.get("inserted_len", 0),
        )
        for run in done.duplicates:
            self.kv.put_back(run)
        end_node = self.ids.of(done.node, theirs["end_node"])
        return {"already_cached": done.num_cached_tokens, "end_node": end_node}

    def _match(
        self, do: dict[str, Any], namespace: Namespace, theirs: dict[str, Any]
    ) -> dict[str, Any]:
        hit = self.kv.cache.match(do["tokens"], len(do["tokens"]), namespace)
        if do["op"] == "touch":
            return {}
        if do["op"] == "lock":
            self.kv.cache.lock(hit.node)
            self.locked[do["name"]] = hit.node
        got: dict[str, Any] = {
            "matched": hit.num_tokens,
            "end_node": self.ids.of(hit.node, theirs["end_node"]),
        }
        if do["op"] == "match":
            path = reversed(list(hit.node.path()))
            got["slots"] = [slot for node in path for slot in slots_of(node, self.kv.block_size)]
        return got
