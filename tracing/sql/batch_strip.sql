-- What each step computed for whom, steps $a to $b of $engine: one row per step and sequence (request_id NULL:
-- a step without rows). n: tokens scheduled; unused: budget left over.
SELECT s.step, s.start_ns, s.end_ns, s.mode, s.token_budget, s.token_budget - s.num_tokens AS unused, r.row,
       r.request_id, r.num_scheduled_tokens AS n, r.is_prefill, r.code
FROM step s LEFT JOIN step_request r USING (engine_id, step)
WHERE engine_id = $engine AND s.step BETWEEN $a AND $b ORDER BY s.step, r.row;
