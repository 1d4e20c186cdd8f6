-- Radix tree: what became of pages $lo to $hi - 1 of $owner's block table before seq $before. One row per page:
-- the step at which the tree dropped the node that held it, and for whom; NULLs where it was never dropped.
WITH held AS (                                  -- the block that held each page, and since when
    SELECT idx AS i, arg_max(block_id, seq) AS block_id, max(seq) AS since FROM kv_block
    WHERE request_id = $owner AND idx >= $lo AND idx < $hi AND code IN (601, 602, 606) AND seq < $before GROUP BY idx),
node AS (                                       -- the node that it came to belong to
    SELECT h.i, arg_max(k.node_id, k.seq) AS node_id FROM held h JOIN kv_block k ON k.block_id = h.block_id
    WHERE k.node_id <> 0 AND k.seq < $before GROUP BY h.i)
SELECT h.i, e.step, e.other_id, label(e.other_id) AS other
FROM held h LEFT JOIN node n USING (i)
LEFT JOIN cache_event e ON e.node_id = n.node_id AND NOT e.alive AND e.seq < $before ORDER BY h.i;
