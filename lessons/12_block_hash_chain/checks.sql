-- The claims of this lesson. Each query returns counter-examples, smallest first.

-- check: five_pairs
-- en: Prompts of 15, 31, 63, 64 and 65 tokens were each sent twice.
-- zh: 15、31、63、64、65 个 token 的 prompt 各发送了两次。
-- en but: prompts of {tokens} tokens: {times} instead of 2
-- zh but: {tokens} 个 token 的 prompt 发送了 {times} 次，应为 2 次
SELECT tokens, (SELECT count(*) FROM request WHERE num_prompt_tokens = tokens) AS times
FROM unnest([15, 31, 63, 64, 65]) AS u(tokens) WHERE times <> 2 ORDER BY 1;

-- check: first_time_nothing
-- en: The first time, nothing is found: no two of these prompts share a block.
-- zh: 第一次什么都不命中：这些 prompt 互相没有相同的块。
-- en but: the first prompt of {tokens} tokens found {cached}
-- zh but: {tokens} 个 token 的 prompt 第一次就命中 {cached} 个
SELECT num_tokens AS tokens, num_cached_tokens AS cached FROM step_request
WHERE request_id & 1 = 1 AND num_cached_tokens > 0 ORDER BY 1;

-- check: second_time_whole_blocks
-- en: The second time, it finds the whole blocks below its last token: 0, 16, 48, 48, 64.
-- zh: 第二次命中最后一个 token 之前的整块：0、16、48、48、64。
-- en but: {tokens} tokens found {cached}, the rule says {wanted}
-- zh but: {tokens} 个 token 命中 {cached}，按规则应为 {wanted}
SELECT num_tokens AS tokens, num_cached_tokens AS cached, (num_tokens - 1) // 16 * 16 AS wanted
FROM step_request WHERE request_id & 1 = 0 AND cached <> wanted ORDER BY 1;

-- check: full_hit_gives_up_a_block
-- en: Only the prompt of 64 tokens was cached whole, and it gave up a block of 16.
-- zh: 只有 64 个 token 的 prompt 完全在缓存里，它舍弃了一块 16 个。
-- en but: a full hit was seen for {tokens} tokens, giving up {given_up}
-- zh but: 全命中出现在 {tokens} 个 token，舍弃 {given_up}
SELECT coalesce(a1, 0) AS tokens, coalesce(a2, 0) AS given_up
FROM (SELECT 64 AS n) FULL JOIN (FROM decision WHERE code = 703) d ON d.a1 = n
WHERE n IS NULL OR a1 IS NULL OR a2 <> 16 ORDER BY 1;
