-- Every request in the order of arrival, with what became of it; ended_by is its sentence in $lang (en | zh),
-- NULL while it is open. ttft_ns, e2e_ns, queue_ns: durations; num_cached_tokens: prefix hit at first admission.
SELECT l.request_id, label(l.request_id) AS request, l.external_id, l.arrival_ns, l.num_prompt_tokens,
       l.num_cached_tokens, l.num_output_tokens, l.num_preemptions, l.num_recomputed_tokens,
       t.queue_ns, t.ttft_ns, t.tpot_ns, t.e2e_ns, l.code, v.name,
       say(CASE WHEN $lang = 'zh' THEN v.zh ELSE v.en END, l.a0, NULL, NULL, NULL, l.request_id, NULL) AS ended_by
FROM request_life l LEFT JOIN latency t USING (request_id) LEFT JOIN reason v ON v.code = l.code
ORDER BY l.arrival_ns, l.request_id;
