-- Prefix-cache hit rate in tokens, as vLLM defines it: what first admissions asked for and what they got.
-- Resumed requests (after preemption) are counted apart: their hits are their own lost work. No parameters.
SELECT code = 104 AS resumed, count(*) AS admissions, sum(num_tokens)::BIGINT AS queried_tokens,
       sum(num_cached_tokens)::BIGINT AS hit_tokens, sum(num_cached_tokens) / sum(num_tokens) AS rate
FROM step_request WHERE code IN (103, 104, 105, 107, 109) GROUP BY 1 ORDER BY 1;
