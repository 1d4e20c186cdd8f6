-- Steps that gave a decoding sequence nothing: between two of its tokens, with no preemption between them.
WITH t AS (SELECT engine_id, request_id, k, step, lag(step) OVER (PARTITION BY request_id ORDER BY k) AS before
           FROM token)
SELECT before + 1 AS step, label(request_id) AS request, k AS token, step - before - 1 AS steps_without
FROM t WHERE step > before + 1
  AND NOT EXISTS (FROM decision d JOIN reason v USING (code) WHERE v.kind = 'victim'
                  AND d.request_id = t.request_id AND d.step > before AND d.step <= t.step)
ORDER BY before, request
