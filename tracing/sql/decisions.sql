-- Decisions of steps $a to $b of $engine in order, each with its sentence in $lang (en | zh).
SELECT d.step, d.seq, d.ts_ns, d.code, v.name, v.kind, d.request_id, d.other_id,
       label(d.request_id) AS request, say(CASE WHEN $lang = 'zh' THEN zh ELSE en END,
                                           a0, a1, a2, a3, d.request_id, d.other_id) AS sentence
FROM decision d JOIN reason v USING (code)
WHERE engine_id = $engine AND d.step BETWEEN $a AND $b ORDER BY d.seq;
