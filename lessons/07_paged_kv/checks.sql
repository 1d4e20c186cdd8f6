-- The claims of this lesson. Each query returns counter-examples, smallest first.

-- check: eight_short_answers
-- en: In both engines eight requests with room for 128 tokens wrote 21 tokens each.
-- zh: 两个引擎里，八个最长 128 token 的请求各写了 21 个 token。
-- en but: engine {engine}: {requests} requests did
-- zh but: 引擎 {engine}：这样的请求有 {requests} 个
SELECT engine, (SELECT count(*) FROM request_life l WHERE l.num_output_tokens = 21
    AND l.num_prompt_tokens + l.max_tokens = 128 AND EXISTS (FROM step_request x WHERE x.request_id = l.request_id AND x.engine_id = engine)) AS requests
FROM range(2) e(engine) WHERE requests <> 8 ORDER BY 1;

-- check: the_first_reserves
-- en: The first engine took the blocks for 128 tokens at admission and none later.
-- zh: 第一个引擎在准入时取走 128 个 token 的块，之后不再取。
-- en but: request {request}: {reserved} blocks reserved, {taken} taken one by one
-- zh but: 请求 {request}：预留 {reserved} 块，逐块取 {taken} 块
SELECT request_id & 15 AS request, count(*) FILTER (code = 610) AS reserved, count(*) FILTER (code = 601) AS taken
FROM kv_block WHERE engine_id = 0 AND request_id IS NOT NULL GROUP BY ALL HAVING reserved <> 8 OR taken > 0 ORDER BY 1;

-- check: four_and_eight
-- en: Reserving, at most 4 ran at once; paging, all 8.
-- zh: 预留时最多同时运行 4 个；分页时 8 个全部运行。
-- en but: engine {engine}: at most {most} instead of {wanted}
-- zh but: 引擎 {engine}：最多 {most} 个，应为 {wanted}
SELECT engine, (SELECT max(num_rows) FROM step WHERE engine_id = engine) AS most, wanted
FROM (VALUES (0, 4), (1, 8)) v(engine, wanted) WHERE most IS DISTINCT FROM wanted ORDER BY 1;

-- check: waste_is_less_than_a_block
-- en: Paging, no sequence ever held a block that it had not begun to write.
-- zh: 分页时，没有序列占着还没开始写的块。
-- en but: step {step}: {held} blocks are held, {needed} are needed
-- zh but: 第 {step} 步：占着 {held} 块，需要 {needed} 块
SELECT s.step, s.used_blocks AS held, sum((r.num_computed_tokens + r.num_scheduled_tokens + 15) // 16) AS needed
FROM step s JOIN step_request r USING (engine_id, step) WHERE engine_id = 1 AND s.num_finished = 0
GROUP BY ALL HAVING held <> needed ORDER BY 1;
