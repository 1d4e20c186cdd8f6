-- Requests alive between $a and $b (epoch ns), each with its phases in order. end_ns and code NULL: still open.
SELECT l.request_id, label(l.request_id) AS label, l.arrival_ns, l.end_ns, l.code, l.num_preemptions,
       list({'phase': p.phase, 'start_ns': p.start_ns, 'end_ns': p.end_ns, 'first_step': p.first_step,
             'last_step': p.last_step} ORDER BY p.start_ns) FILTER (p.phase IS NOT NULL) AS phases
FROM request_life l LEFT JOIN request_phase p USING (request_id)
WHERE l.arrival_ns < $b AND coalesce(l.end_ns, $b) >= $a
GROUP BY ALL ORDER BY l.arrival_ns, l.request_id;
