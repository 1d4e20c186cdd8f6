-- The block pool of $engine at the moment $n_seq, from the keyframe at $k_seq on (query keyframe gives both):
-- one row per block, those never touched included.
--   state            used | cached | free        node_id   its entry in the prefix cache, 0: none
--   eviction_place   1: given out next; NULL: in use, or cached in a tree, which decides (tree_at)
--   free_key         what eviction_place is the rank of, as in kv_event: later events can be applied to it
--   holders, idxs    requests that hold it, and its place in each one's block table
WITH d AS (
    SELECT e.seq + j AS seq, (block_id + sign(num_blocks) * j)::INTEGER AS block_id, request_id, code,
           (idx + j)::INTEGER AS idx, state, ref_count, node_id, free_key + j AS free_key
    FROM (FROM kv_event WHERE engine_id = $engine AND seq > $k_seq AND seq <= $n_seq) e,
         unnest(range(abs(num_blocks)::BIGINT)) AS u(j)),
k AS (FROM kv_snapshot WHERE engine_id = $engine AND seq = $k_seq),
pool AS (
    SELECT unnest(range(1, num_blocks))::INTEGER AS block_id FROM run WHERE num_blocks IS NOT NULL
    UNION SELECT block_id FROM k UNION SELECT block_id FROM d),
st AS (
    SELECT block_id, arg_max({'state': state, 'refs': ref_count, 'node': node_id, 'key': free_key}, seq) AS v
    FROM (SELECT block_id, seq, state, ref_count, node_id, free_key FROM k
          UNION ALL SELECT block_id, seq, state, ref_count, node_id, free_key FROM d
          -- an untouched block stands in the queue where its id puts it
          UNION ALL SELECT block_id, -1, 'free', 0, 0, block_id FROM pool) GROUP BY block_id),
ho AS (
    SELECT block_id, request_id, arg_max({'held': held, 'idx': idx}, seq) AS v
    FROM (SELECT block_id, unnest(holders) AS request_id, unnest(idxs) AS idx, seq, true AS held FROM k
          UNION ALL SELECT block_id, request_id, idx, seq, code IN (601, 602, 610) FROM d
          WHERE code IN (601, 602, 603, 604, 605, 609, 610, 625)) GROUP BY block_id, request_id),
hl AS (
    SELECT block_id, list(request_id ORDER BY request_id) AS holders, list(ho.v.idx ORDER BY request_id) AS idxs
    FROM ho WHERE ho.v.held GROUP BY block_id)
SELECT block_id, st.v.state AS state, st.v.refs AS ref_count, st.v.node AS node_id,
       CASE WHEN st.v.key IS NOT NULL THEN row_number() OVER (ORDER BY st.v.key NULLS LAST) END AS eviction_place,
       coalesce(holders, []) AS holders, coalesce(idxs, []) AS idxs, st.v.key AS free_key
FROM st LEFT JOIN hl USING (block_id) ORDER BY block_id;
