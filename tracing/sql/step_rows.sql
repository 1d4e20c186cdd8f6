-- The rows of $step of $engine in schedule order, each with its reason in $lang (en | zh).
SELECT r.row, r.request_id, label(r.request_id) AS request, r.code, v.name, r.num_scheduled_tokens,
       r.num_computed_tokens, r.num_tokens, r.is_prefill, r.num_cached_tokens, r.num_recomputed_tokens,
       r.num_sampled_tokens,
       say(CASE WHEN $lang = 'zh' THEN zh ELSE en END, r.num_scheduled_tokens, r.num_computed_tokens,
           r.num_tokens, r.num_cached_tokens, r.request_id, NULL) AS reason
FROM step_request r JOIN reason v USING (code)
WHERE engine_id = $engine AND r.step = $step ORDER BY r.row;
