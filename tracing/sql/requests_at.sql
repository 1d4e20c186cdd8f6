-- Requests as they stood at one moment of $engine: those that were open, and the last $done that had left.
-- The moment: after step $n, which ended at $t_ns (epoch ns); all rows are taken if both are beyond the trace.
--   num_computed_tokens   after the last row; 0: preempted since, or never admitted
--   admitted_ns           begin of the step that admitted it first; NULL: never admitted
--   admitted_step, _row   last admission: place in the batch
--   away_seq, away_ns     last preemption; NULL: none since that admission
--   queued_ns             when it came to the core's queue; NULL: not known yet (phases come at the end)
--   left_ns               when the core was done with it; NULL: not by then
--   end_ns, code, end_a0  NULL: not ended by then; end_a0: argument of code
--   last_step             the last one that dealt with it: its row, its preemption, or what front ends said by then
WITH r AS (SELECT * FROM request WHERE arrival_ns <= $t_ns),
e AS (SELECT * FROM request_end WHERE end_ns <= $t_ns),
p AS (SELECT request_id, max(last_step) FILTER (end_ns <= $t_ns) AS last_step,
             min(start_ns) FILTER (phase = 'queue') AS queued_ns,
             min(start_ns) FILTER (phase IN ('detokenise', 'to_api')) AS left_ns FROM request_phase GROUP BY ALL),
x AS (FROM step_request WHERE engine_id = $engine AND step <= $n),
a AS (SELECT request_id, max(step) AS admitted_step, arg_max(row, step) AS admitted_row,
             arg_min(num_cached_tokens, step) AS num_cached_tokens, min(step.start_ns) AS admitted_ns
      FROM x JOIN step USING (engine_id, step) WHERE code IN (103, 104, 105, 107, 109) GROUP BY ALL),
c AS (SELECT request_id, max(step) AS last_step,
             arg_max(num_computed_tokens + num_scheduled_tokens - num_draft_tokens + num_accepted_tokens, step)
                 AS num_computed_tokens FROM x GROUP BY ALL),
v AS (SELECT request_id, count(*) AS num_preemptions, max(step) AS step, max(seq) AS seq, max(ts_ns) AS ts_ns
      FROM decision
      WHERE engine_id = $engine AND step <= $n AND code IN (501, 502, 503, 504, 505, 506, 509) GROUP BY ALL),
t AS (SELECT request_id, count(*) AS num_output_tokens, min(ts_ns) FILTER (k = 0) AS first_token_ns,
             max(ts_ns) AS last_token_ns, max(gap_ns) AS max_gap_ns
      FROM token WHERE engine_id = $engine AND coalesce(step <= $n, ts_ns <= $t_ns) GROUP BY ALL),
q AS (
    SELECT r.request_id, r.external_id, r.arrival_ns, r.num_prompt_tokens, r.max_tokens, r.priority,
           a.num_cached_tokens, a.admitted_ns, a.admitted_step, a.admitted_row,
           CASE WHEN v.step >= a.admitted_step THEN 0 ELSE coalesce(c.num_computed_tokens, 0) END
               AS num_computed_tokens,
           coalesce(t.num_output_tokens, 0) AS num_output_tokens, t.first_token_ns, t.last_token_ns,
           t.max_gap_ns, coalesce(v.num_preemptions, 0) AS num_preemptions,
           CASE WHEN v.step >= a.admitted_step THEN v.seq END AS away_seq,
           CASE WHEN v.step >= a.admitted_step THEN v.ts_ns END AS away_ns,
           p.queued_ns, CASE WHEN coalesce(p.left_ns, e.end_ns) <= $t_ns THEN coalesce(p.left_ns, e.end_ns) END
               AS left_ns, e.end_ns, e.code, e.a0 AS end_a0,
           greatest(c.last_step, v.step, p.last_step) AS last_step
    FROM r LEFT JOIN e USING (request_id) LEFT JOIN p USING (request_id) LEFT JOIN a USING (request_id)
         LEFT JOIN c USING (request_id) LEFT JOIN v USING (request_id) LEFT JOIN t USING (request_id))
FROM q WHERE left_ns IS NULL
UNION ALL (FROM q WHERE left_ns IS NOT NULL ORDER BY left_ns DESC, request_id LIMIT $done);
