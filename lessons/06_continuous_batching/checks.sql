-- The claims of this lesson. Each query returns counter-examples, smallest first.

-- check: three_requests_twice
-- en: In both engines A got 2 tokens, B 5 and C 3.
-- zh: 两个引擎里 A 都得到 2 个 token，B 5 个，C 3 个。
-- en but: engine {engine}: {who} got {tokens} tokens instead of {wanted}
-- zh but: 引擎 {engine}：{who} 得到 {tokens} 个 token，应为 {wanted}
WITH want AS (SELECT * FROM (VALUES (1, 2), (2, 5), (3, 3)) v(n, wanted), range(2) e(engine)),
got AS (SELECT engine_id AS engine, request_id & 15 AS n, count(*) AS tokens FROM token GROUP BY ALL)
SELECT engine, chr(64 + n) AS who, coalesce(tokens, 0) AS tokens, wanted
FROM want LEFT JOIN got USING (engine, n) WHERE tokens IS DISTINCT FROM wanted ORDER BY engine, n;

-- check: never_more_than_two
-- en: No step had more than two sequences.
-- zh: 没有一步超过两个序列。
-- en but: engine {engine}, step {step}: {rows} sequences
-- zh but: 引擎 {engine} 第 {step} 步有 {rows} 个序列
SELECT engine_id AS engine, step, num_rows AS rows FROM step WHERE num_rows > 2 ORDER BY 1, 2;

-- check: eight_and_five
-- en: Static batching took 8 steps, continuous batching 5.
-- zh: 静态批用了 8 步，连续批用了 5 步。
-- en but: engine {engine} took {steps} steps instead of {wanted}
-- zh but: 引擎 {engine} 用了 {steps} 步，应为 {wanted}
SELECT engine, (SELECT count(*) FROM step WHERE engine_id = engine) AS steps, wanted
FROM (VALUES (0, 8), (1, 5)) v(engine, wanted) WHERE steps <> wanted ORDER BY 1;

-- check: padding_only_when_static
-- en: The continuous engine never held a place for a sequence that had ended.
-- zh: 连续批从不为已结束的序列占着位置。
-- en but: step {step}: {who} had ended and held its place
-- zh but: 第 {step} 步：{who} 已结束却占着位置
SELECT step, chr(64 + (request_id & 15)::INTEGER) AS who FROM step_request
WHERE engine_id = 1 AND code = 108 ORDER BY step;

-- check: c_takes_a_place_at_once
-- en: C was admitted in the step after A's last token.
-- zh: A 的最后一个 token 之后的下一步，C 就被准入。
-- en but: A ended in step {a_end}, C came in at step {c_start}
-- zh but: A 在第 {a_end} 步结束，C 在第 {c_start} 步才进来
SELECT (SELECT max(step) FROM token WHERE engine_id = 1 AND request_id & 15 = 1) AS a_end, min(step) AS c_start
FROM step_request WHERE engine_id = 1 AND request_id & 15 = 3 HAVING c_start <> a_end + 1;
