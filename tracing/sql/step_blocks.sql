-- What happened to KV blocks in $step of $engine, in order: runs of blocks first_block .. last_block, each with
-- its sentence in $lang (en | zh). idle_steps: of an eviction, steps since the blocks were used.
SELECT e.seq, e.code, v.name, e.block_id AS first_block, e.block_id + e.num_blocks - sign(e.num_blocks) AS last_block,
       abs(e.num_blocks) AS num_blocks, label(coalesce(e.request_id, e.other_id)) AS request, e.state, e.ref_count,
       say(CASE WHEN $lang = 'zh' THEN zh ELSE en END, e.block_id,
           CASE e.code WHEN 608 THEN e.idle_steps WHEN 607 THEN c.num_copies ELSE abs(e.num_blocks) END,
           NULL, NULL, e.request_id, e.other_id) AS sentence
FROM kv_event e JOIN reason v USING (code)
LEFT JOIN cache_event c ON e.code = 607 AND c.engine_id = e.engine_id AND c.seq = e.seq
WHERE e.engine_id = $engine AND e.step = $step ORDER BY e.seq;
