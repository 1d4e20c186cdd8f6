-- Rates over steps $a to $b of $engine, from the begin of the first to the end of the last. NULL: nothing to divide by.
--   prefill_per_s, decode_per_s   tokens computed a second      budget_share   of the token budget, empty steps left out
--   hit_share                     of the prompt tokens looked up at admission, those found in the prefix cache
WITH s AS (FROM step WHERE engine_id = $engine AND step BETWEEN $a AND $b AND end_ns IS NOT NULL),
h AS (SELECT sum(num_cached_tokens) AS hits, sum(num_tokens) AS asked FROM step_request
      WHERE engine_id = $engine AND step BETWEEN $a AND $b AND code IN (103, 104, 105, 107, 109)),
t AS (SELECT (max(end_ns) - min(start_ns)) / 1e9 AS seconds FROM s)
SELECT count(*) AS num_steps, sum(num_prefill_tokens) / nullif(any_value(seconds), 0) AS prefill_per_s,
       sum(num_tokens - num_prefill_tokens - num_draft_tokens) / nullif(any_value(seconds), 0) AS decode_per_s,
       sum(num_tokens) FILTER (mode <> 'empty') / nullif(sum(token_budget) FILTER (mode <> 'empty'), 0)
           AS budget_share,
       (SELECT hits / nullif(asked, 0) FROM h) AS hit_share,
       count(*) / nullif(any_value(seconds), 0) AS steps_per_s
FROM s, t;
