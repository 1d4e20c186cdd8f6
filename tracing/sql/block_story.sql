-- What happened to KV block $block of $engine up to the moment $n_seq, the last $limit acts, newest first.
SELECT e.step, e.seq, e.code, v.name, e.request_id, e.other_id, e.state, e.idle_steps,
       e.idx + (abs($block - e.block_id)) AS idx
FROM kv_event e JOIN reason v USING (code)
WHERE engine_id = $engine AND seq <= $n_seq
  AND $block BETWEEN least(block_id, block_id + num_blocks - sign(num_blocks))
                 AND greatest(block_id, block_id + num_blocks - sign(num_blocks))
ORDER BY seq DESC LIMIT $limit;
