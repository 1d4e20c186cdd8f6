-- Where each token of $request's prompt came from at its first admission: cached, or why not. One row per cause
-- (and step, and request that caused it), with sentences in $lang (en | zh); the tokens add up to the prompt's length.
-- Hash cache only: a missed block's chain hash tells what had become of it when the request was looked up.
--   724 cached, but behind a missing block     723 evicted before     727 being computed by another at that time
--   725 the same text under another salt       728 never seen, and the first to differ     729 never seen
-- Causes are read from the moment before the request's own first block event, since its admission adds entries.
WITH q AS (
    SELECT d.engine_id, d.step, a0 AS hit, a0 + a2 AS known, a1 AS len, a3 AS unit, d.code
    FROM decision d WHERE request_id = $request AND d.code BETWEEN 701 AND 706 ORDER BY seq LIMIT 1),
start AS (
    SELECT min(k.seq) AS seq FROM kv_event k, q
    WHERE k.engine_id = q.engine_id AND (k.request_id = $request OR k.other_id = $request)),
missed AS (                                     -- full blocks that were not cached
    SELECT b.i, b.hash, b.content, q.unit AS n
    FROM prompt_block b, q WHERE b.request_id = $request AND b.i * q.unit >= q.known),
life AS (                                       -- what had become of each before this request
    SELECT m.i, arg_max({'alive': e.alive, 'step': e.step, 'oth': e.other_id}, e.seq) AS was
    FROM missed m JOIN cache_event e ON e.node_id = m.hash, q, start
    WHERE e.engine_id = q.engine_id AND e.seq < start.seq GROUP BY m.i),
late AS (                                       -- entered later by somebody who was already running
    SELECT m.i, min(e.request_id) AS oth
    FROM missed m JOIN cache_event e ON e.node_id = m.hash AND e.alive, q, start
    WHERE e.engine_id = q.engine_id AND e.seq > start.seq AND e.request_id <> $request
      AND EXISTS (FROM step_request r WHERE r.engine_id = q.engine_id AND r.request_id = e.request_id AND r.step <= q.step)
    GROUP BY m.i),
salted AS (                                     -- the same text of an earlier request, under another name
    SELECT m.i, min(o.request_id) AS oth
    FROM missed m JOIN prompt_block o ON o.content = m.content AND o.hash <> m.hash
    JOIN request r ON r.request_id = o.request_id JOIN request me ON me.request_id = $request
    WHERE r.arrival_ns < me.arrival_ns GROUP BY m.i),
cause AS (
    SELECT m.i, m.n,
           CASE WHEN q.code = 706 THEN 706 WHEN l.was.alive THEN 724 WHEN l.was IS NOT NULL THEN 723
                WHEN late.oth IS NOT NULL THEN 727 WHEN s.oth IS NOT NULL THEN 725
                WHEN m.i = 0 OR m.i * q.unit = q.known THEN 728 ELSE 729 END AS code,
           CASE WHEN NOT l.was.alive THEN l.was.step END AS step,
           coalesce(CASE WHEN NOT l.was.alive THEN l.was.oth END, late.oth, s.oth) AS other_id
    FROM missed m LEFT JOIN life l USING (i) LEFT JOIN late USING (i) LEFT JOIN salted s USING (i), q),
parts AS (
    SELECT 702 AS code, hit AS n, NULL AS step, NULL::UBIGINT AS other_id FROM q
    UNION ALL SELECT 721, known - hit, NULL, NULL FROM q
    UNION ALL SELECT code, n, step, other_id FROM cause
    UNION ALL SELECT CASE WHEN code = 706 THEN 706 ELSE 722 END, len - known - (SELECT coalesce(sum(n), 0) FROM missed), NULL, NULL FROM q),
sums AS (SELECT code, step, other_id, sum(n)::BIGINT AS tokens FROM parts WHERE n > 0 GROUP BY ALL)
SELECT s.code, v.name, s.step, label(s.other_id) AS other, s.tokens,
       CASE WHEN s.code <> 702 THEN say(CASE WHEN $lang = 'zh' THEN zh ELSE en END, s.tokens,
                                        CASE WHEN s.code = 728 THEN q.known ELSE s.step END, NULL, NULL, NULL, s.other_id)
            WHEN $lang = 'zh' THEN '来自前缀缓存' ELSE 'from the prefix cache' END AS sentence
FROM sums s JOIN reason v USING (code), q ORDER BY s.code, s.step;
