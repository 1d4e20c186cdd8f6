-- Work done per second of the run, from the first arrival or step to the last end. output: tokens sampled; prompt:
-- prompt tokens computed (prefix hits less); requests: ended in any way. seconds: that time. No parameters.
WITH edge AS (
    SELECT (max(b) - min(a)) / 1e9 AS seconds
    FROM (SELECT min(arrival_ns) AS a, max(end_ns) AS b FROM request_life
          UNION ALL SELECT min(start_ns), max(end_ns) FROM step))
SELECT seconds, (SELECT count(*) FROM token) / nullif(seconds, 0) AS output_tokens_per_s,
       (SELECT sum(num_prefill_tokens) FROM step) / nullif(seconds, 0) AS prompt_tokens_per_s,
       (SELECT count(*) FROM request_end) / nullif(seconds, 0) AS requests_per_s
FROM edge;
