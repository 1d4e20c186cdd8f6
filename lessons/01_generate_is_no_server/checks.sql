-- The claims of this lesson. Each query returns counter-examples, smallest first.

-- check: eight_twice
-- en: In both engines the eight requests got 8, 40, 12, 24, 8, 32, 16 and 20 tokens.
-- zh: 两个引擎里八个请求分别得到 8、40、12、24、8、32、16、20 个 token。
-- en but: engine {engine}: request {n} got {tokens} tokens instead of {wanted}
-- zh but: 引擎 {engine}：请求 {n} 得到 {tokens} 个 token，应为 {wanted}
WITH want AS (SELECT unnest(range(1, 9)) AS n, unnest([8, 40, 12, 24, 8, 32, 16, 20]) AS wanted),
got AS (SELECT engine_id AS engine, request_id & 15 AS n, count(*) AS tokens FROM token GROUP BY ALL)
SELECT engine, n, coalesce(tokens, 0) AS tokens, wanted FROM want CROSS JOIN range(2) e(engine)
LEFT JOIN got USING (engine, n) WHERE tokens IS DISTINCT FROM wanted ORDER BY engine, n;

-- check: one_at_a_time
-- en: The first engine never had two sequences in a step.
-- zh: 第一个引擎从没有一步出现两个序列。
-- en but: step {step} had {rows}
-- zh but: 第 {step} 步有 {rows} 个
SELECT step, num_rows AS rows FROM step WHERE engine_id = 0 AND num_rows > 1 ORDER BY 1;

-- check: sum_and_maximum
-- en: One by one the steps are the sum of the answers, together they are the longest: 160 and 40.
-- zh: 逐个处理的步数是答案长度之和，一起处理是最长者：160 和 40。
-- en but: engine {engine} took {steps} steps instead of {wanted}
-- zh but: 引擎 {engine} 用了 {steps} 步，应为 {wanted}
SELECT engine, (SELECT count(*) FROM step WHERE engine_id = engine) AS steps, wanted
FROM (VALUES (0, 160), (1, 40)) v(engine, wanted) WHERE steps <> wanted ORDER BY 1;

-- check: first_tokens
-- en: Together, everybody has a first token in step 0.
-- zh: 一起处理时，每个请求在第 0 步就有第一个 token。
-- en but: request {n} had its first token in step {step}
-- zh but: 请求 {n} 在第 {step} 步才有第一个 token
SELECT request_id & 15 AS n, min(step) AS step FROM token WHERE engine_id = 1 GROUP BY 1 HAVING min(step) > 0 ORDER BY 1;
