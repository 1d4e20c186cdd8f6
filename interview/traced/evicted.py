"""Whose text was dropped from the prefix cache? That of the block which had been free for longest.

Source: vLLM 0.33 `vllm/v1/core/block_pool.py` (get_new_blocks, _maybe_evict_cached_block).
"""

from interview.phrases import fill
from interview.text import Text
from interview.traced.asked import Asked, Row, Source, Statement, because, table

EVICTIONS = """
SELECT e.engine_id, e.step, e.seq, e.block_id, e.other_id AS request_id, label(e.other_id) AS request,
       abs(e.num_blocks) AS blocks,
       say(en, e.block_id, e.idle_steps, NULL, NULL, NULL, e.other_id) AS en,
       say(zh, e.block_id, e.idle_steps, NULL, NULL, NULL, e.other_id) AS zh
FROM kv_event e JOIN reason USING (code) WHERE e.code = 608 AND e.other_id IS NOT NULL
ORDER BY hash(e.seq + {seed}) LIMIT 40
"""
# Blocks that were cached and free at that moment, by who held them last; the order in which they were let go.
FREE = """
WITH b AS (SELECT * FROM kv_block WHERE engine_id = {engine_id} AND seq < {seq}),
last AS (SELECT block_id, arg_max(code, seq) AS code, max(seq) AS freed,
                arg_max(request_id, seq) FILTER (code IN (601, 602)) AS owner,
                arg_max(step, seq) AS step FROM b GROUP BY block_id)
SELECT owner, label(owner) AS request, count(*) AS blocks, min(step) AS freed_in_step,
       bool_or(block_id = {block_id}) AS is_dropped, min(freed) AS freed
FROM last WHERE code = 604 AND owner IS NOT NULL AND owner <> {request_id}
GROUP BY owner ORDER BY freed
"""


def ask(source: Source) -> Asked | None:
    """An eviction while blocks of several requests were free."""
    for eviction in source.rows(EVICTIONS.format(seed=source.random.randrange(2**31))):
        owners = source.rows(FREE.format(**eviction))
        dropped = [row for row in owners if row["is_dropped"]]
        others = [row for row in owners if not row["is_dropped"]]
        if len(dropped) != 1 or len(others) < 2:
            continue
        source.random.shuffle(others)
        return Asked(
            question=fill("trace_evicted", **eviction),
            right=Statement(_text(dropped[0]), because(eviction)),
            wrong=tuple(Statement(_text(row), fill("evicted_no", **row)) for row in others[:3]),
            moment=source.moment(eviction),
            picture=_picture(dropped + others[:3]),
            proof=_picture(dropped),
        )
    return None


def _picture(rows: list[Row]) -> tuple[str, ...]:
    columns = ("request", "blocks", "freed_in_step")
    return table([{c: row[c] for c in columns} for row in sorted(rows, key=lambda r: r["owner"])])


def _text(row: Row) -> Text:
    return fill("evicted_of", request=row["request"])
