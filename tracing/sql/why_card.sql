-- Why $request got what it got in $step of $engine: its row, the decisions about it, and, if it waited, the
-- decision at which the admission loop stopped (with reason 421, BEHIND, if it stopped at somebody else).
-- Sentences in both languages. No row: nothing was recorded of it; the step's level says why.
WITH me AS (
    SELECT 0 AS place, code, num_scheduled_tokens::BIGINT AS a0, num_computed_tokens::BIGINT AS a1,
           num_tokens::BIGINT AS a2, num_cached_tokens::BIGINT AS a3, NULL::UBIGINT AS other_id
    FROM step_request WHERE engine_id = $engine AND step = $step AND request_id = $request
    UNION ALL
    SELECT 1, code, a0, a1, a2, a3, other_id
    FROM decision WHERE engine_id = $engine AND step = $step AND request_id = $request),
waits AS (
    SELECT 1 FROM request_phase p, step s
    WHERE s.engine_id = $engine AND s.step = $step AND p.request_id = $request
      AND p.phase IN ('queue', 'preempted') AND p.start_ns <= s.start_ns AND p.end_ns > s.scheduled_ns),
stops AS (
    SELECT d.* FROM decision d JOIN reason USING (code)
    WHERE kind = 'stop' AND engine_id = $engine AND step = $step
      AND d.request_id IS DISTINCT FROM $request AND EXISTS (FROM waits)),
facts AS (
    FROM me
    UNION ALL SELECT 2, 421, NULL, NULL, NULL, NULL, request_id FROM stops WHERE request_id IS NOT NULL
    UNION ALL SELECT 3, code, a0, a1, a2, a3, request_id FROM stops)
SELECT f.code, name, kind, say(en, a0, a1, a2, a3, $request, other_id) AS en,
       say(zh, a0, a1, a2, a3, $request, other_id) AS zh
FROM facts f JOIN reason USING (code) ORDER BY place, f.code;
