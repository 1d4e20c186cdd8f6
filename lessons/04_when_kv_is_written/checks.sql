-- The claims of this lesson. Each query returns counter-examples, smallest first.

-- check: r_finds_four
-- en: R came second, with 6 prompt tokens and 3 of output, and found 4 in the cache.
-- zh: R 第二个到来，6 个 prompt token、输出 3 个，缓存命中 4 个。
-- en but: R found {cached} tokens of its {prompt} and wrote {output}
-- zh but: R 的 {prompt} 个 prompt token 命中 {cached}，输出 {output}
SELECT coalesce(num_cached_tokens, 0) AS cached, coalesce(num_prompt_tokens, 0) AS prompt,
       coalesce(num_output_tokens, 0) AS output
FROM (SELECT 2 AS n) LEFT JOIN request_life ON request_id & 15 = n
WHERE num_prompt_tokens IS DISTINCT FROM 6 OR num_output_tokens IS DISTINCT FROM 3
   OR num_cached_tokens IS DISTINCT FROM 4;

-- check: two_computed
-- en: R's first step computed positions 4 and 5.
-- zh: R 的第一步计算位置 4 和 5。
-- en but: it computed {n} tokens from position {first} on
-- zh but: 它从位置 {first} 起计算了 {n} 个
SELECT num_computed_tokens AS first, num_scheduled_tokens AS n FROM
(FROM step_request WHERE request_id & 15 = 2 ORDER BY step LIMIT 1) WHERE first <> 4 OR n <> 2;

-- check: read_one_step_later
-- en: Each token that R sampled was read, and so written, in the next step; the last one never.
-- zh: R 采样的每个 token 都在下一步被读入并写入；最后一个从未写入。
-- en but: token {k}, sampled in step {step}, was read in step {read}
-- zh but: 第 {step} 步采样的 token {k} 在第 {read} 步读入
SELECT t.k, t.step, coalesce(x.step::VARCHAR, '?') AS read
FROM token t JOIN request_life r USING (request_id)
LEFT JOIN step_request x ON x.request_id = t.request_id AND x.num_computed_tokens = r.num_prompt_tokens + t.k
WHERE t.request_id & 15 = 2
  AND x.step IS DISTINCT FROM CASE WHEN t.k < r.num_output_tokens - 1 THEN t.step + 1 END ORDER BY k;

-- check: kernels_agree
-- en: In every step and layer, kv_write wrote as many tokens as the step computed.
-- zh: 每一步、每一层，kv_write 写入的 token 数等于该步计算的 token 数。
-- en but: step {step}, layer {layer}: {written} written, {computed} computed
-- zh but: 第 {step} 步第 {layer} 层：写入 {written}，计算 {computed}
SELECT s.step, k.layer, k.num_tokens AS written, s.num_tokens AS computed
FROM step s JOIN kernel k USING (engine_id, step) JOIN dict d ON d.kind = 'kernel' AND d.id = k.kernel_id
WHERE d.text = 'kv_write' AND k.num_tokens <> s.num_tokens ORDER BY 1, 2;
