"""Replay of golden files of kind request: a request's life over pool and tree, without a scheduler."""

from collections.abc import Iterator
from typing import Any

from engine.sequence import Sequence
from workbench.conformance.sglang_setup import decode, extend, make_kv, make_request
from workbench.conformance.sglang_tree import NodeIds, our_state, their_state

MECHANISM = "sglang request life"
COMMON = "sglang/srt/mem_cache/common.py"
CHECKPOINT = "sglang/srt/mem_cache/unified_radix_cache.py checkpoint_into_tree"
RULES = {
    "matched": "sglang/srt/managers/schedule_batch.py init_next_round_input: at most length - 1",
    "computed": "sglang/srt/managers/schedule_batch.py prepare_for_extend",
    "req": f"{CHECKPOINT}: the row takes the tree's slots, the lock moves; {COMMON} release_kv_cache",
    "sizes": f"{CHECKPOINT}; {COMMON} release_kv_cache",
    "tree": f"{CHECKPOINT}: whole pages, cut at the prompt's end with priority + 1",
    "old_to_new": f"{CHECKPOINT}",
    "leaves": f"{CHECKPOINT}",
}


def num_steps(case: dict[str, Any]) -> int:
    """One per operation."""
    return len(case["steps"])


def steps(case: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """(theirs, ours) after each operation."""
    play = _Play(case["config"])
    for step in case["steps"]:
        theirs = step["got"] | {"req": step["req"]} | their_state(step["after"])
        ours = play.do(step["do"])
        ours |= {"req": play.seen(step["do"]["rid"], step["req"])}
        ours |= our_state(play.kv, step["after"])
        yield theirs, ours
        play.ids.learn(play.kv, step["after"])


class _Life:
    """A request, and what outlives its blocks."""

    def __init__(self, seq: Sequence) -> None:
        self.seq = seq
        self.prefix = 0
        """Where the next extend starts: moves at checkpoints only."""
        self.tree_owned = 0


class _Play:
    def __init__(self, config: dict[str, Any]) -> None:
        self.kv = make_kv(config)
        self.ids = NodeIds(self.kv)
        self.lives: dict[str, _Life] = {}

    def do(self, do: dict[str, Any]) -> dict[str, Any]:
        if do["op"] == "arrive":
            seq = Sequence(make_request(len(self.lives), do), 0)
            self.lives[do["rid"]] = _Life(seq)
            return {}
        life = self.lives[do["rid"]]
        seq, kv = life.seq, self.kv
        match do["op"]:
            case "extend":
                return self._extend(life, do.get("to", seq.num_tokens))
            case "token":
                seq.token_ids.append(do["token"])
            case "checkpoint":
                kv.checkpoint(seq)
                life.prefix = seq.num_computed_tokens
            case "decode":
                decode(kv, seq, do["token"])
            case "finish":
                kv.checkpoint(seq)
                life.tree_owned = seq.num_cached_blocks * kv.block_size
                kv.free(seq)
                return {}
            case "abort":
                kv.free(seq)
                return {}
            case "retract":
                kv.free(seq)
                kv.make_room(20 * do["others"], None)
                life.prefix = life.tree_owned = seq.num_computed_tokens = 0
                return {}
        life.tree_owned = seq.num_cached_blocks * kv.block_size
        return {}

    def _extend(self, life: _Life, end: int) -> dict[str, Any]:
        seq = life.seq
        if not self.kv.holds(seq):
            hit = self.kv.lookup(seq)
            life.prefix = hit.num_tokens
            self.kv.admit(seq, hit)
        start = seq.num_computed_tokens
        extend(self.kv, seq, end)
        life.tree_owned = seq.num_cached_blocks * self.kv.block_size
        return {"matched": start, "computed": end - start}

    def seen(self, rid: str, theirs: dict[str, Any]) -> dict[str, Any]:
        """The request in the file's words."""
        life, size = self.lives[rid], self.kv.block_size
        seq, row, node = life.seq, None, None
        if self.kv.holds(seq):
            ids = [block.block_id for block in seq.block_table]
            row = [ids[i // size] * size + i % size for i in range(seq.num_computed_tokens)]
            node = self.ids.of(self.kv.held_node(seq), theirs["locked_node"])
        return {
            "prefix": life.prefix,
            "tree_owned": life.tree_owned,
            "committed": seq.num_computed_tokens,
            "output": seq.token_ids[seq.num_prompt_tokens :],
            "row": row,
            "locked_node": node,
        }
