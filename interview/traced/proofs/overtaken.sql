-- Requests of equal priority that were admitted for the first time before an earlier one.
WITH a AS (SELECT r.request_id, r.arrival_ns, r.priority, x.step, x.row
           FROM request r JOIN (SELECT request_id, min(step) AS step, arg_min(row, step) AS row
                                FROM step_request GROUP BY request_id) x USING (request_id))
SELECT late.step, label(late.request_id) AS request, label(early.request_id) AS overtaken, early.step AS its_step
FROM a late JOIN a early ON late.priority = early.priority AND early.arrival_ns < late.arrival_ns
  AND (early.step, early.row) > (late.step, late.row)
ORDER BY late.step, request
