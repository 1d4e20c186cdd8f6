-- Use of the block pool, per engine: mean over time (each step weighs as long as it lasted) and peak of the share of
-- blocks held by running requests; cached: the mean share that is free but still known to the prefix cache.
SELECT s.engine_id, any_value(r.num_blocks) - 1 AS blocks, max(used_blocks) AS peak_blocks,
       max(used_blocks) / nullif(any_value(r.num_blocks) - 1, 0) AS peak,
       sum(used_blocks * (end_ns - start_ns)) / nullif(sum(end_ns - start_ns), 0)
           / nullif(any_value(r.num_blocks) - 1, 0) AS mean,
       sum(cached_free_blocks * (end_ns - start_ns)) / nullif(sum(end_ns - start_ns), 0)
           / nullif(any_value(r.num_blocks) - 1, 0) AS cached
FROM step s, run r WHERE end_ns IS NOT NULL GROUP BY ALL ORDER BY engine_id;
