-- The claims of this lesson. Each query returns counter-examples, smallest first.

-- check: same_work_twice
-- en: In both engines the watched answer got 40 tokens, and three prompts of 700 came while it was being written.
-- zh: 两个引擎里被观察的答案都得到 40 个 token，期间来了三个 700 token 的 prompt。
-- en but: engine {engine}: {output} tokens of output, {prompts} prompts of 700
-- zh but: 引擎 {engine}：输出 {output} 个 token，700 token 的 prompt {prompts} 个
SELECT engine, (SELECT count(*) FROM token t WHERE t.engine_id = engine AND t.request_id & 15 = 1) AS output,
       (SELECT count(DISTINCT x.request_id) FROM step_request x JOIN request q USING (request_id)
        WHERE x.engine_id = engine AND q.num_prompt_tokens = 700) AS prompts
FROM range(2) e(engine) WHERE output <> 40 OR prompts <> 3 ORDER BY 1;

-- check: never_left_out
-- en: The watched answer has a row in every step of its life.
-- zh: 被观察的答案在它存续期间的每一步都有一行。
-- en but: engine {engine}, step {step}: it had none
-- zh but: 引擎 {engine} 第 {step} 步：没有它
SELECT s.engine_id AS engine, s.step FROM step s
JOIN (SELECT engine_id, max(step) AS last FROM step_request WHERE request_id & 15 = 1 GROUP BY 1) e USING (engine_id)
WHERE s.step <= e.last AND NOT EXISTS (FROM step_request r WHERE r.engine_id = s.engine_id AND r.step = s.step
AND r.request_id & 15 = 1) ORDER BY 1, 2;

-- check: the_budget_is_the_ceiling
-- en: The watched answer never waited for more than its budget: at most 1,023 tokens of others, and at most 127.
-- zh: 被观察的答案从不会等超过预算的工作：他人的 token 至多 1,023 个，或至多 127 个。
-- en but: engine {engine}, step {step}: {others} tokens of others
-- zh but: 引擎 {engine} 第 {step} 步：他人的 token 有 {others} 个
SELECT engine_id AS engine, step, s.num_tokens - 1 AS others FROM step s
JOIN step_request r USING (engine_id, step) WHERE r.request_id & 15 = 1 AND r.code = 101
AND others > CASE engine_id WHEN 0 THEN 1023 ELSE 127 END ORDER BY others;

-- check: steps_are_full
-- en: While prompt tokens were left, the budget was used to the last token.
-- zh: 只要还有 prompt token，预算就用到最后一个。
-- en but: engine {engine}, step {step}: {tokens} of {budget}
-- zh but: 引擎 {engine} 第 {step} 步：{tokens}/{budget}
SELECT s.engine_id AS engine, s.step, s.num_tokens AS tokens, s.token_budget AS budget FROM step s
WHERE s.step > 0 AND s.num_prefill_tokens > 0 AND tokens < budget AND EXISTS (
    FROM step n WHERE n.engine_id = s.engine_id AND n.step > s.step AND n.num_prefill_tokens > 0) ORDER BY 1, 2;

-- check: three_and_seventeen
-- en: The prompts took 3 steps with budget 1,024 and 17 with 128.
-- zh: prompt 在预算 1,024 时用 3 步，128 时用 17 步。
-- en but: engine {engine}: {steps} steps instead of {wanted}
-- zh but: 引擎 {engine}：{steps} 步，应为 {wanted}
SELECT engine, (SELECT count(*) FROM step WHERE engine_id = engine AND step > 0 AND num_prefill_tokens > 0) AS steps,
       wanted FROM (VALUES (0, 3), (1, 17)) v(engine, wanted) WHERE steps <> wanted ORDER BY 1;
