-- The nearest step of $engine in which something of a kind happened: after step $n if $direction is 1, before it if
-- -1. step NULL: there is none. n: how often it happened there. Kinds:
--   arrive admit resume chunk (cut) skip (passed over, or the loop stopped) preempt evict (blocks or nodes) first
--   (token) finish fault control
WITH ends AS (SELECT step, end_ns, lag(end_ns, 1, 0) OVER (ORDER BY step) AS before_ns
              FROM step WHERE engine_id = $engine AND end_ns IS NOT NULL),
last_steps AS (SELECT request_id, max(last_step) AS step FROM request_phase GROUP BY ALL),
moments AS (
    SELECT step, 'arrive' AS kind, 1 AS n FROM request JOIN ends ON arrival_ns > before_ns AND arrival_ns <= end_ns
    UNION ALL
    SELECT step, CASE WHEN code = 104 THEN 'resume' ELSE 'admit' END, 1 FROM step_request
    WHERE engine_id = $engine AND code IN (103, 104, 105, 107, 109)
    UNION ALL
    SELECT step, CASE WHEN code < 300 THEN 'chunk' WHEN code < 500 THEN 'skip' ELSE 'preempt' END, 1
    FROM decision WHERE engine_id = $engine AND code BETWEEN 200 AND 599 AND code NOT IN (421, 431, 432, 507, 508)
    UNION ALL
    SELECT step, 'evict', abs(num_blocks) FROM kv_event WHERE engine_id = $engine AND code = 608
    UNION ALL
    SELECT step, 'evict', 1 FROM cache_event WHERE engine_id = $engine AND code = 627 AND NOT is_reached
    UNION ALL
    SELECT step, 'first', 1 FROM token WHERE engine_id = $engine AND k = 0 AND step IS NOT NULL
    UNION ALL
    SELECT coalesce(l.step, ends.step), 'finish', 1 FROM request_end e LEFT JOIN last_steps l USING (request_id)
    LEFT JOIN ends ON e.end_ns > before_ns AND e.end_ns <= ends.end_ns
    UNION ALL
    SELECT coalesce(e.step, ends.step), CASE WHEN code < 1000 THEN 'fault' ELSE 'control' END, 1
    FROM event e LEFT JOIN ends ON e.ts_ns > before_ns AND e.ts_ns <= ends.end_ns
    WHERE code NOT IN (1001, 1002))
SELECT step, sum(n)::BIGINT AS n FROM moments
WHERE kind = $kind AND (step - $n) * $direction > 0 GROUP BY step ORDER BY step * $direction LIMIT 1;
