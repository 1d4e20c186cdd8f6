-- The output tokens of $request: k from 0, the step that sampled each, gap_ns since the one before, and its id
-- (NULL: tokens were not recorded).
SELECT k, step, ts_ns, gap_ns, token_id FROM token WHERE request_id = $request ORDER BY k;
