"""How much of a prompt came from the prefix cache? What it shares, in whole units, short of the last token.

Asked only where that rule alone gives what was recorded; where something had been evicted, came too late or
carries another salt, `interview.traced.misses` asks why.

Source: vLLM 0.33 `vllm/v1/core/kv_cache_manager.py` (get_computed_blocks); SGLang 0.5.23
`sglang/srt/mem_cache/radix_cache.py` (match_prefix).
"""

from itertools import takewhile

from interview.phrases import fill
from interview.traced.asked import Asked, Row, Source, because, numbers, table

LOOKUPS = """
SELECT d.engine_id, d.step, d.request_id, label(d.request_id) AS request, a0 AS hit, a1 AS length, a3 AS unit,
       r.arrival_ns, r.namespace_id, say(en, a0, a1, a2, a3, d.request_id, d.other_id) AS en,
       say(zh, a0, a1, a2, a3, d.request_id, d.other_id) AS zh
FROM decision d JOIN reason USING (code) JOIN request r USING (request_id)
WHERE d.code IN (702, 703, 704) AND d.a3 IS NOT NULL ORDER BY hash(d.seq + {seed}) LIMIT 12
"""
TOKENS = """
SELECT p.request_id, label(p.request_id) AS request, p.token_ids
FROM prompt p JOIN request r USING (request_id)
WHERE r.arrival_ns <= {arrival_ns} AND r.namespace_id IS NOT DISTINCT FROM {namespace}
ORDER BY r.arrival_ns DESC, request_id DESC LIMIT 40
"""
# Without token ids: full blocks of the prompts, each hash naming all before it.
BLOCKS = """
SELECT o.request_id, label(o.request_id) AS request, max(o.i + 1)::INTEGER * {unit} AS same
FROM prompt_block o JOIN prompt_block m ON m.request_id = {request_id} AND m.i = o.i AND m.hash = o.hash
JOIN request r ON r.request_id = o.request_id
WHERE r.arrival_ns <= {arrival_ns} AND o.request_id <> {request_id}
GROUP BY o.request_id ORDER BY same DESC, o.request_id LIMIT 6
"""
SHOWN = 6


def ask(source: Source) -> Asked | None:
    """A hit that follows from what the prompt shares with earlier prompts."""
    for lookup in source.rows(LOOKUPS.format(seed=source.random.randrange(2**31))):
        shared = _shared(source, lookup)
        hit, unit = lookup["hit"], lookup["unit"]
        same = min(max((row["same"] for row in shared), default=0), lookup["length"] - 1)
        if not shared or same // unit * unit != hit:
            continue
        others = [same, hit + unit, hit - unit, lookup["length"] - 1, 0, lookup["length"]]
        right, *wrong = numbers(hit, others, because(lookup), "cached_no")
        if len(wrong) >= 2:
            return Asked(
                question=fill("trace_cached", **lookup),
                right=right,
                wrong=tuple(wrong),
                moment=source.moment(lookup),
                picture=table(
                    [
                        {"request": row["request"], "same_leading_tokens": row["same"]}
                        for row in shared
                    ]
                ),
                proof=source.step_rows(lookup["engine_id"], lookup["step"]),
            )
    return None


def _shared(source: Source, lookup: Row) -> list[Row]:
    """Earlier requests by how many leading tokens they share, most first."""
    namespace = "NULL" if lookup["namespace_id"] is None else lookup["namespace_id"]
    prompts = source.rows(TOKENS.format(**lookup, namespace=namespace))
    mine = [row["token_ids"] for row in prompts if row["request_id"] == lookup["request_id"]]
    if not mine:
        return source.rows(BLOCKS.format(**lookup))
    found = [
        {
            **{"request": row["request"], "request_id": row["request_id"]},
            "same": sum(1 for _ in takewhile(lambda p: p[0] == p[1], zip(*pair, strict=False))),
        }
        for row in prompts
        if row["request_id"] != lookup["request_id"]
        for pair in [(mine[0], row["token_ids"])]
    ]
    found.sort(key=lambda row: (-row["same"], row["request_id"]))
    return found[:SHOWN]
