-- The run in one row. duration_ns: first arrival or step to the last end. Tokens: of prompts as asked, of output
-- as sampled, computed as the steps ran them (prefix hits less, recomputation and drafts more).
-- first_engine, first_step, last_step: what other queries can be asked for (NULL: no steps recorded). No parameters.
WITH edge AS (
    SELECT min(a) AS lo, max(b) AS hi
    FROM (SELECT min(arrival_ns) AS a, max(end_ns) AS b FROM request_life
          UNION ALL SELECT min(start_ns), max(end_ns) FROM step)),
r AS (SELECT count(*) AS n, count(end_ns) AS ended, sum(num_prompt_tokens)::BIGINT AS prompt_tokens,
             sum(num_preemptions)::BIGINT AS preemptions FROM request_life),
s AS (SELECT count(*) AS n, min(engine_id) AS engine, min(step) AS first_step, max(step) AS last_step,
             sum(num_tokens)::BIGINT AS tokens, sum(num_preempted)::BIGINT AS preemptions,
             max(used_blocks) AS peak_blocks FROM step)
SELECT (SELECT any_value(model) FROM run) AS model, (SELECT any_value(policy) FROM run) AS policy,
       (SELECT any_value(cache_kind) FROM run) AS cache_kind, (SELECT any_value(block_size) FROM run) AS block_size,
       (SELECT any_value(num_blocks) FROM run) AS num_blocks,
       edge.lo AS start_ns, edge.hi - edge.lo AS duration_ns,
       r.n AS requests, r.n - r.ended AS open_requests, s.n AS steps,
       coalesce(r.prompt_tokens, 0) AS prompt_tokens, (SELECT count(*) FROM token) AS output_tokens,
       coalesce(s.tokens, 0) AS computed_tokens, coalesce(s.preemptions, r.preemptions, 0) AS preemptions,
       s.peak_blocks, (SELECT count(*) FROM kernel) AS kernel_launches,
       (SELECT coalesce(sum(lost_records), 0)::BIGINT FROM ingest) AS lost_records,
       s.engine AS first_engine, s.first_step, s.last_step
FROM edge, r, s;
