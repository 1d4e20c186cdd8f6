"""Why was a part of a prompt not in the prefix cache? What had become of its blocks when it was looked up.

The causes come from query `why_miss`, which reads them from chain hashes: so hash caches only.

Source: vLLM 0.33 `vllm/v1/core/kv_cache_utils.py` for the chain; the causes are Cutaway's own.
"""

from interview.phrases import fill
from interview.text import Language, Text
from interview.traced.asked import Asked, Row, Source, Statement, false, table

CAUSES = {
    "MISS_EVICTED": "evicted",
    "MISS_CHAIN": "chain",
    "MISS_SALT": "salt",
    "MISS_TOO_LATE": "late",
    "MISS_FULL_HIT": "full",
    "MISS_DIFFERS": "new",
    "MISS_NEVER": "new",
}
LOOKUPS = """
SELECT d.engine_id, d.step, d.request_id, label(d.request_id) AS request, a0 AS hit, a1 AS length
FROM decision d, run WHERE run.cache_kind = 'hash' AND d.code IN (701, 702, 703)
  AND d.a1 - d.a0 >= d.a3 ORDER BY hash(d.seq + {seed}) LIMIT 8
"""


def ask(source: Source) -> Asked | None:
    """A prompt whose missed tokens have one main cause; rather not the plain one, that they were new."""
    fallback: tuple[Row, list[Row], dict[str, int]] | None = None
    for lookup in source.rows(LOOKUPS.format(seed=source.random.randrange(2**31))):
        rows = _causes(source, lookup, "en")
        spent = dict.fromkeys(CAUSES.values(), 0)
        for row in rows:
            if row["name"] in CAUSES:
                spent[CAUSES[row["name"]]] += row["tokens"]
        main, second = sorted(spent, key=lambda cause: -spent[cause])[:2]
        if spent[main] == 0 or spent[main] == spent[second]:
            continue
        if main != "new":
            return _asked(source, lookup, main, rows, spent)
        fallback = fallback or (lookup, rows, spent)
    return None if fallback is None else _asked(source, fallback[0], "new", *fallback[1:])


def _asked(source: Source, lookup: Row, main: str, rows: list[Row], spent: dict[str, int]) -> Asked:
    said = [
        "; ".join(row["sentence"] for row in told if CAUSES.get(row["name"]) == main)
        for told in (rows, _causes(source, lookup, "zh"))
    ]
    return Asked(
        question=fill("trace_miss", **lookup, tokens=spent[main]),
        right=Statement(fill(f"miss_{main}"), fill("miss_yes", said=Text(*said))),
        wrong=tuple(false(f"miss_{cause}") for cause in spent if not spent[cause]),
        moment=source.moment(lookup),
        picture=_earlier(source, lookup["request_id"]),
        proof=table(
            [{"cause": row["name"], "tokens": row["tokens"], "step": row["step"]} for row in rows]
        ),
    )


def _causes(source: Source, lookup: Row, language: Language) -> list[Row]:
    return source.run.query("why_miss", request=lookup["request_id"], lang=language).dicts()


def _earlier(source: Source, request_id: int) -> tuple[str, ...]:
    """Who asked for the same blocks before, with or without the salt, and when they were in the engine."""
    return table(
        source.rows(
            f"""SELECT label(o.request_id) AS request, count(*) AS same_blocks,
                       bool_and(o.hash = m.hash) AS same_hashes,
                       (SELECT min(step) FROM step_request s WHERE s.request_id = o.request_id) AS first_step,
                       (SELECT max(step) FROM step_request s WHERE s.request_id = o.request_id) AS last_step
                FROM prompt_block m JOIN prompt_block o ON o.content = m.content AND o.i = m.i
                JOIN request r ON r.request_id = o.request_id JOIN request me ON me.request_id = m.request_id
                WHERE m.request_id = {request_id} AND o.request_id <> {request_id}
                  AND r.arrival_ns <= me.arrival_ns
                GROUP BY o.request_id ORDER BY same_blocks DESC, o.request_id DESC LIMIT 6"""
        )
    )
