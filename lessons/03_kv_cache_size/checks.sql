-- The claims of this lesson. Each query returns counter-examples, smallest first.

-- check: one_request
-- en: One request ran, alone, with a prompt of 100 tokens and an answer of 60.
-- zh: 只运行了一个请求：prompt 100 个 token，答案 60 个。
-- en but: {requests} such requests, at most {rows} at a time
-- zh but: 这样的请求有 {requests} 个，最多同时 {rows} 个
SELECT (SELECT count(*) FROM request_life WHERE num_prompt_tokens = 100 AND num_output_tokens = 60) AS requests,
       (SELECT coalesce(max(num_rows), 0) FROM step) AS rows WHERE requests <> 1 OR rows <> 1;

-- check: bytes_per_token
-- en: A token takes 2 x layers x 3 x 64 x 2 bytes, 22.5 KiB for the 30 layers of SmolLM2-135M.
-- zh: 一个 token 占 2 x 层数 x 3 x 64 x 2 字节，SmolLM2-135M 的 30 层即 22.5 KiB。
-- en but: {bytes} bytes for {layers} layers, not {wanted}
-- zh but: {layers} 层占 {bytes} 字节，不是 {wanted}
SELECT (config->>'$.ledger.kv')::BIGINT // num_blocks // block_size AS bytes, layers, 2 * layers * 3 * 64 * 2 AS wanted
FROM run, (SELECT max(num_layers) AS layers FROM rank_step) WHERE bytes <> wanted;

-- check: the_pool
-- en: The 64 MiB hold as many whole blocks as fit: 182, of which 181 are given out.
-- zh: 64 MiB 放下尽可能多的整块：182 块，其中 181 块可分配。
-- en but: {blocks} blocks, {usable} of them used or free
-- zh but: 共 {blocks} 块，已用或空闲 {usable} 块
SELECT run.num_blocks AS blocks, used_blocks + cached_free_blocks + free_blocks AS usable
FROM step, run WHERE blocks <> 182 OR usable <> blocks - 1 ORDER BY step LIMIT 1;

-- check: whole_blocks
-- en: In each step the request holds the blocks of its written positions, rounded up.
-- zh: 每一步，请求占用的块数等于已写位置除以 16 向上取整。
-- en but: step {step}: {written} positions, {blocks} blocks
-- zh but: 第 {step} 步：{written} 个位置，{blocks} 块
SELECT s.step, num_computed_tokens + num_scheduled_tokens AS written, s.used_blocks AS blocks
FROM step s JOIN step_request r USING (engine_id, step)
WHERE s.num_finished = 0 AND blocks <> (written + 15) // 16 ORDER BY 1;
