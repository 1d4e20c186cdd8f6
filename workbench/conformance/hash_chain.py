"""Replay of vLLM's block hash chains."""

import sys
from typing import Any

from engine.kv.hashing import BlockHasher, ExtraKeys
from workbench.conformance.report import CaseResult, Difference

RULE = "vllm/v1/core/kv_cache_utils.py hash_block_tokens: sha256(parent, tokens, extra keys)"


def replay(case: dict[str, Any]) -> CaseResult:
    """Every chain under every algorithm of the file; a step is one hash."""
    total = sum(
        1 + len(chain["hashes"]) for algo in case["algorithms"].values() for chain in algo["chains"]
    )
    done, size = 0, case["block_size"]
    for name, algo in case["algorithms"].items():
        hasher = BlockHasher(size, name)
        if hasher.none_hash.hex() != algo["none_hash"]:
            difference = Difference(
                0, f"{name} none_hash", algo["none_hash"], hasher.none_hash.hex(), RULE
            )
            return CaseResult("hash_chain", "vllm hash chain", total, done, difference)
        for chain in algo["chains"]:
            done += 1
            parent: bytes | None = None
            for i, theirs in enumerate(chain["hashes"]):
                tokens = chain["tokens"][i * size : (i + 1) * size]
                parent = hasher.hash_block(parent, tokens, _extra(chain["extra_keys"][i]))
                if parent.hex() != theirs:
                    difference = Difference(
                        i, f"{name} {chain['name']}", theirs, parent.hex(), RULE
                    )
                    return CaseResult("hash_chain", "vllm hash chain", total, done, difference)
                done += 1
    return CaseResult("hash_chain", "vllm hash chain", total, done)


def _extra(keys: list[list[Any]] | None) -> ExtraKeys:
    """Upstream's tags are literals, one object each, and pickle writes the second as a reference."""
    return tuple((sys.intern(key[0]), *key[1:]) for key in keys) if keys else None
