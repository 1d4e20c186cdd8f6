-- How much of the token budget the steps used, per engine: share = tokens computed / tokens offered.
-- prefill_share: of the tokens computed, those of prompts. Empty steps are left out. No parameters.
SELECT engine_id, count(*) AS steps, sum(num_tokens)::BIGINT AS used_tokens,
       sum(token_budget)::BIGINT AS offered_tokens, sum(num_tokens) / sum(token_budget) AS share,
       sum(num_prefill_tokens) / nullif(sum(num_tokens), 0) AS prefill_share,
       avg(num_rows) AS mean_rows
FROM step WHERE mode <> 'empty' GROUP BY engine_id ORDER BY engine_id;
