-- The prefix cache of $engine at the moment $n_seq, from the keyframe at $k_seq on (query keyframe gives both):
-- one row per node alive. depth: tokens above it; num_copies: blocks that hold this content (hash cache);
-- lock_count to namespace_id: radix tree only, else NULL. Unlocked leaves are evicted by access, smallest first.
WITH u AS (
    SELECT *, true AS alive FROM cache_snapshot WHERE engine_id = $engine AND seq = $k_seq
    UNION ALL BY NAME
    SELECT * EXCLUDE (ts_ns, code, is_reached, request_id, other_id)
    FROM cache_event WHERE engine_id = $engine AND seq > $k_seq AND seq <= $n_seq)
SELECT * EXCLUDE (engine_id, step, seq, alive) FROM (
    FROM u QUALIFY row_number() OVER (PARTITION BY node_id ORDER BY seq DESC) = 1)
WHERE alive ORDER BY depth, node_id;
