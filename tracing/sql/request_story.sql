-- Why, all through the life of $request: each step in which something was decided about it, with sentences in
-- $lang (en | zh). Plain decodes (101) are left out: nothing was decided in them.
WITH f AS (
    SELECT engine_id, step, 1 AS place, 0 AS seq, code, num_scheduled_tokens::BIGINT AS a0,
           num_computed_tokens::BIGINT AS a1, num_tokens::BIGINT AS a2, num_cached_tokens::BIGINT AS a3,
           NULL::UBIGINT AS other_id
    FROM step_request WHERE request_id = $request AND code <> 101
    UNION ALL
    SELECT engine_id, step, 0, seq, code, a0, a1, a2, a3, other_id FROM decision WHERE request_id = $request)
SELECT f.engine_id, f.step, f.code, v.name,
       say(CASE WHEN $lang = 'zh' THEN zh ELSE en END, a0, a1, a2, a3, $request, other_id) AS sentence
FROM f JOIN reason v USING (code) ORDER BY f.engine_id, f.step, place, seq;
