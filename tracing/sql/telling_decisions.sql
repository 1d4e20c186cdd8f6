-- The $n decisions that say most about a run, with sentences in $lang (en | zh). Five kinds take turns, so that
-- no kind fills the list: the preemption that lost most, the stop for want of memory (or of places), the
-- eviction of the entry that had been used last, the deepest cut, the biggest prefix hit; then the second of each.
WITH c AS (
    SELECT CASE kind WHEN 'victim' THEN 1 WHEN 'stop' THEN 2 WHEN 'cut' THEN 4 ELSE 5 END AS class,
           CASE kind WHEN 'victim' THEN a1
                     WHEN 'stop' THEN CASE WHEN d.code IN (404, 405, 406, 411, 420) THEN 2
                                           WHEN d.code IN (408, 402, 403) THEN 1 ELSE 0 END
                     WHEN 'cut' THEN a0 - a1 ELSE a0 END AS weight,
           d.engine_id, d.step, d.seq, d.code, d.request_id, d.other_id, a0, a1, a2, a3
    FROM decision d JOIN reason USING (code)
    WHERE kind IN ('stop', 'cut') OR (kind = 'victim' AND d.code NOT IN (507, 508))
       OR (kind = 'lookup' AND a0 > 0 AND d.code <> 705)
    UNION ALL
    SELECT 3, -idle_steps, engine_id, step, seq, code, request_id, other_id, block_id, idle_steps, NULL, NULL
    FROM kv_event WHERE code = 608),
-- One fact is told once: of a stop that repeats step after step, or an admission cut each time, the first.
once AS (
    SELECT * FROM c QUALIFY row_number() OVER (PARTITION BY class, code, request_id, other_id
                                               ORDER BY weight DESC, seq) = 1),
turns AS (SELECT *, row_number() OVER (PARTITION BY class ORDER BY weight DESC, seq) AS turn FROM once),
best AS (FROM turns ORDER BY turn, class LIMIT $n)
SELECT b.engine_id, b.step, b.code, v.name, coalesce(b.request_id, b.other_id) AS request_id,
       label(coalesce(b.request_id, b.other_id)) AS request,
       say(CASE WHEN $lang = 'zh' THEN zh ELSE en END, a0, a1, a2, a3, b.request_id, b.other_id) AS sentence
FROM best b JOIN reason v USING (code) ORDER BY b.turn, b.class;
