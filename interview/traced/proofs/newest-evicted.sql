-- Evictions of a block while another cached block had been free for longer.
WITH b AS (SELECT engine_id, seq, step, block_id, code FROM kv_block),
span AS (SELECT *, lead(seq, 1, 9223372036854775807) OVER (PARTITION BY engine_id, block_id ORDER BY seq) AS until
         FROM b),
free AS (FROM span WHERE code = 604),
gone AS (SELECT e.engine_id, e.step, e.seq, e.block_id, max(f.seq) AS since FROM b e
         JOIN free f ON f.engine_id = e.engine_id AND f.block_id = e.block_id AND f.seq < e.seq
         WHERE e.code = 608 GROUP BY ALL)
SELECT g.step, g.block_id, min(f.block_id) AS older_block, count(*) AS num_older
FROM gone g JOIN free f ON f.engine_id = g.engine_id AND f.seq < g.since AND f.until > g.seq
GROUP BY g.step, g.seq, g.block_id ORDER BY g.seq
