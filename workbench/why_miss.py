"""How `cutaway trace why-miss` answers: each token of a prompt, and why it was not in the prefix cache.

A hash chain is explained by the trace alone (`tracing/sql/why_miss.sql`): each missed block's hash tells what
had become of it when the request was looked up. A radix tree has no such names, so its misses are found by
comparing tokens, which must have been recorded: what somebody had computed before is looked up in that
request's block table, and from there in the life of the node that held it.

What another block size would have found takes tokens as well, and is an upper bound: as if nothing had been
evicted.
"""

from collections import Counter
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from tracing.errors import TraceError
from tracing.reader import Run
from workbench.trace_show import Page, find_request

BLOCK_SIZES = (1, 16, 64)
Cause = tuple[str, int, int | None, str | None]
"""(name of the reason, tokens, step, label of the other request)."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the cache said when the request was first admitted."""

    hit: int
    length: int
    given_up: int
    unit: int
    """Tokens per block or page."""
    not_read: bool
    before: int
    """Sequence number of the request's first block event: causes lie before it."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far a prompt agrees with what others had computed when it was looked up."""

    length: int
    num_same: int
    """Leading tokens computed before under the same salt."""
    owner: int | None
    """Who had computed most of them."""
    owner_label: str | None
    num_elsewhere: int
    """Leading tokens computed before under another salt."""
    elsewhere_label: str | None


def show_why_miss(page: Page, name: str) -> None:
    """Print causes and counts for one request. Raises TraceError when the trace cannot say."""
    request = find_request(page, name)
    rows, agreement = explain(page.run, request["request_id"], page.lang)
    if not rows:
        raise TraceError(
            f"request {request['request']} has no recorded lookup: it was never admitted, or the level was "
            "below 3 (blocks)"
        )
    length = sum(row["tokens"] for row in rows)
    computed = length - sum(row["tokens"] for row in rows if row["name"] == "HIT_PART")
    page.heading(
        f"{page.name}, request {request['request']}: {computed} of {length} tokens computed"
    )
    page.facts([(f"{row['tokens']:>6}", row["name"].lower(), row["sentence"]) for row in rows])
    if agreement is None:
        page.line("tokens were not recorded, so positions and other block sizes cannot be told")
        return
    if agreement.num_same < length:
        leaves = f", where it leaves {agreement.owner_label}" if agreement.owner else ""
        page.line(f"first token that nobody had computed: number {agreement.num_same}{leaves}")
    page.heading("With another block size, had nothing been evicted")
    most = min(agreement.num_same, length - 1)  # the last token is always computed, for its logits
    page.facts(
        [(f"{size:>6}", "block size", f"{most // size * size} cached") for size in BLOCK_SIZES]
    )


def causes(run: Run, request_id: int, lang: str) -> list[dict[str, Any]]:
    """The rows alone: tokens are compared only where nothing else tells. Raises TraceError."""
    if _has_hashes(run):
        return run.query("why_miss", request=request_id, lang=lang).dicts()
    return explain(run, request_id, lang)[0]


def explain(run: Run, request_id: int, lang: str) -> tuple[list[dict[str, Any]], Agreement | None]:
    """Rows of (name, tokens, step, other, sentence) that add up to the prompt; empty: no lookup recorded."""
    lookup = _lookup(run, request_id)
    if lookup is None:
        return [], None
    agreement = _agreement(run, request_id)
    if _has_hashes(run):
        return run.query("why_miss", request=request_id, lang=lang).dicts(), agreement
    if agreement is None and not lookup.not_read:
        raise TraceError(
            "a radix tree's misses are found by comparing tokens, and this run did not record them: "
            "record with --record-tokens"
        )
    return _sentences(run, lang, _radix_causes(run, lookup, agreement)), agreement


def _has_hashes(run: Run) -> bool:
    return bool(run.sql("SELECT cache_kind FROM run").rows[0][0] != "radix")


def _radix_causes(run: Run, lookup: Lookup, agreement: Agreement | None) -> list[Cause]:
    """Walk the prompt from its hit on: evicted or still being computed, another salt, differs, never."""
    known = lookup.hit + lookup.given_up
    found: list[Cause] = [
        ("HIT_PART", lookup.hit, None, None),
        ("MISS_FULL_HIT", lookup.given_up, None, None),
    ]
    if lookup.not_read or agreement is None:
        return [*found, ("HIT_NOT_READ", lookup.length - known, None, None)]
    unit, full = lookup.unit, lookup.length // lookup.unit * lookup.unit
    same = max(known, min(full, agreement.num_same // unit * unit))
    if same > known:
        assert agreement.owner is not None
        bounds = {"lo": known // unit, "hi": same // unit, "before": lookup.before}
        for p in run.query("evicted_pages", owner=agreement.owner, **bounds).dicts():
            code = "MISS_TOO_LATE" if p["step"] is None else "MISS_EVICTED"
            other = agreement.owner_label if p["step"] is None else p["other"]
            found.append((code, unit, p["step"], other))
    salted = max(same, min(full, agreement.num_elsewhere // unit * unit))
    found.append(("MISS_SALT", salted - same, None, agreement.elsewhere_label))
    differs = min(unit, full - salted)
    found.append(("MISS_DIFFERS", differs, agreement.num_same, None))
    found.append(("MISS_NEVER", full - salted - differs, None, None))
    found.append(("MISS_NOT_FULL", lookup.length - max(full, known), None, None))
    return found


def _sentences(run: Run, lang: str, found: list[Cause]) -> list[dict[str, Any]]:
    """Join equal causes and render them in the language."""
    counts: Counter[tuple[str, int | None, str | None]] = Counter()
    for name, tokens, step, other in found:
        counts[name, step, other] += tokens
    texts = {row["name"]: row[lang] for row in run.sql("SELECT * FROM reason").dicts()}
    cached = {"en": "from the prefix cache", "zh": "来自前缀缓存"}[lang]
    rows = []
    for (name, step, other), tokens in counts.items():
        if tokens:
            text = cached if name == "HIT_PART" else texts[name]
            for placeholder, value in (("{a0}", tokens), ("{a1}", step), ("{oth}", other)):
                text = text.replace(placeholder, "?" if value is None else str(value))
            rows.append(
                {"name": name, "tokens": tokens, "step": step, "other": other, "sentence": text}
            )
    return rows


def _lookup(run: Run, request_id: int) -> Lookup | None:
    rows = run.sql(
        f"""SELECT a0, a1, a2, a3, code, (SELECT min(seq) FROM kv_event k
              WHERE k.engine_id = d.engine_id AND {request_id} IN (k.request_id, k.other_id)) AS before
            FROM decision d WHERE request_id = {int(request_id)} AND code BETWEEN 701 AND 706
            ORDER BY seq LIMIT 1"""
    ).rows
    if not rows or rows[0][5] is None:
        return None
    hit, length, given_up, unit, code, before = rows[0]
    return Lookup(hit, length, given_up, unit, code == 706, before)


def _agreement(run: Run, request_id: int) -> Agreement | None:
    """None: tokens are not recorded."""
    known = run.sql(_KNOWN.format(request=int(request_id))).dicts()
    mine = [row for row in known if row["is_me"]]
    if not mine or mine[0]["tokens"] is None:
        return None
    prompt = mine[0]["tokens"]
    best: dict[bool, tuple[int, int | None, str | None]] = {
        True: (0, None, None),
        False: (0, None, None),
    }
    for row in known:
        if not row["is_me"]:
            found = (_agree(prompt, row["tokens"]), row["request_id"], row["label"])
            best[row["is_same"]] = max(best[row["is_same"]], found, key=lambda b: b[0])
    num_same, owner, label = best[True]
    num_elsewhere, _, elsewhere = best[False]
    return Agreement(len(prompt), num_same, owner, label, num_elsewhere, elsewhere)


def _agree(a: list[Any], b: list[Any]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


# Prompts and outputs of everybody, cut to what had been computed when the request was looked up.
_KNOWN = """
WITH q AS (SELECT engine_id, step, seq FROM decision WHERE request_id = {request}
           AND code BETWEEN 701 AND 706 ORDER BY seq LIMIT 1),
done AS (SELECT r.request_id, max(num_computed_tokens + num_scheduled_tokens) AS n
         FROM step_request r, q WHERE r.engine_id = q.engine_id
         AND (r.step < q.step OR (r.step = q.step AND r.row < (
              SELECT row FROM step_request x WHERE x.step = q.step AND x.request_id = {request})))
         GROUP BY 1)
SELECT p.request_id, p.request_id = {request} AS is_me, r.namespace_id = me.namespace_id AS is_same,
       label(p.request_id) AS label,
       CASE WHEN p.request_id = {request} THEN p.token_ids
            ELSE list_concat(p.token_ids, coalesce((SELECT list(token_id ORDER BY k) FROM token t
                 WHERE t.request_id = p.request_id), []))[1:d.n] END AS tokens
FROM prompt p JOIN request r USING (request_id) JOIN request me ON me.request_id = {request}
LEFT JOIN done d ON d.request_id = p.request_id
WHERE p.request_id = {request} OR d.n IS NOT NULL
"""
