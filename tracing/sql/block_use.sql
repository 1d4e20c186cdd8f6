-- Who used each KV block of $engine last, up to the moment $n_seq, and in which step anything happened to it but
-- its eviction. Blocks never touched have no row. last_owner, last_idx: whose table it entered last, and where in
-- it, also after it left.
SELECT block_id, arg_max(request_id, seq) FILTER (code IN (601, 602, 610)) AS last_owner,
       arg_max(idx, seq) FILTER (code IN (601, 602, 610)) AS last_idx,
       max(step) FILTER (code <> 608) AS touched_step
FROM (SELECT e.seq + j AS seq, (block_id + sign(num_blocks) * j)::INTEGER AS block_id, request_id,
             (idx + j)::INTEGER AS idx, code, step
      FROM (FROM kv_event WHERE engine_id = $engine AND seq <= $n_seq) e,
           unnest(range(abs(num_blocks)::BIGINT)) AS u(j))
GROUP BY block_id;
