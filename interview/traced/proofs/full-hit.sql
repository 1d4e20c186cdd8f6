-- First lookups that stopped before a block that was cached and that they could have used: it ends before the last
-- token. Read from the moment before the request's own first block event, since its admission adds entries.
SELECT d.step, label(d.request_id) AS request, d.a1 AS prompt, d.a0 AS cached, d.a0 + d.a3 AS could_be
FROM decision d JOIN prompt_block b ON b.request_id = d.request_id AND b.i * d.a3 = d.a0
JOIN LATERAL (SELECT min(seq) AS seq FROM kv_event k WHERE k.engine_id = d.engine_id
              AND (k.request_id = d.request_id OR k.other_id = d.request_id)) own ON true
WHERE d.code BETWEEN 701 AND 704 AND d.a0 + d.a3 < d.a1
  AND (SELECT arg_max(alive, e.seq) FROM cache_event e
       WHERE e.engine_id = d.engine_id AND e.node_id = b.hash AND e.seq < own.seq)
ORDER BY d.seq
