-- request_story.sql without its sentences: what was decided about $request, for those who write their own.
-- Of a row (codes 1xx): a0 tokens computed, a1 computed before, a2 its length, a3 prefix hit.
WITH f AS (
    SELECT engine_id, step, 1 AS place, 0 AS seq, code, num_scheduled_tokens::BIGINT AS a0,
           num_computed_tokens::BIGINT AS a1, num_tokens::BIGINT AS a2, num_cached_tokens::BIGINT AS a3,
           NULL::UBIGINT AS other_id
    FROM step_request WHERE request_id = $request AND code <> 101
    UNION ALL
    SELECT engine_id, step, 0, seq, code, a0, a1, a2, a3, other_id FROM decision WHERE request_id = $request)
SELECT engine_id, step, code, a0, a1, a2, a3, other_id FROM f ORDER BY engine_id, step, place, seq;
