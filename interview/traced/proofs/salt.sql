-- Blocks that a request shared although a request of another salt had computed and entered them.
WITH entered AS (SELECT engine_id, seq, block_id, request_id FROM kv_block WHERE code IN (606, 607)),
hit AS (SELECT engine_id, step, seq, block_id, request_id FROM kv_block WHERE code = 602),
pair AS (SELECT h.step, h.seq, h.block_id, h.request_id, e.request_id AS owner
         FROM hit h ASOF JOIN entered e
         ON h.engine_id = e.engine_id AND h.block_id = e.block_id AND h.seq >= e.seq)
SELECT p.step, label(p.request_id) AS reader, r.namespace_id AS reader_salt, label(p.owner) AS computed_by,
       o.namespace_id AS owner_salt, count(*) AS blocks
FROM pair p JOIN request r ON r.request_id = p.request_id JOIN request o ON o.request_id = p.owner
WHERE r.namespace_id IS DISTINCT FROM o.namespace_id
GROUP BY ALL ORDER BY p.step, reader
