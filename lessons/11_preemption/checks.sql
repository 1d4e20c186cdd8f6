-- The claims of this lesson. Each query returns counter-examples, smallest first.

-- check: all_complete
-- en: In both engines three requests got all of their 40 tokens.
-- zh: 两个引擎里三个请求都得到了全部 40 个 token。
-- en but: engine {engine}: {complete} requests got 40 tokens
-- zh but: 引擎 {engine}：得到 40 个 token 的请求有 {complete} 个
SELECT engine, count(n) FILTER (n = 40) AS complete FROM range(2) e(engine)
LEFT JOIN (SELECT engine_id, request_id, count(*) AS n FROM token GROUP BY ALL) t ON t.engine_id = engine
GROUP BY ALL HAVING complete <> 3 ORDER BY 1;

-- check: the_last_one_goes
-- en: In each engine one request was preempted: the third, admitted last.
-- zh: 每个引擎都有一个请求被抢占：最后准入的第三个。
-- en but: engine {engine}: {times} preemptions, of {who}
-- zh but: 引擎 {engine}：{times} 次抢占，对象 {who}
SELECT engine, count(code) AS times, coalesce(string_agg(request_id & 15), '-') AS who FROM range(2) e(engine)
LEFT JOIN decision d ON d.engine_id = engine AND d.code BETWEEN 501 AND 504
GROUP BY ALL HAVING times <> 1 OR who <> '3' ORDER BY 1;

-- check: on_a_block_boundary
-- en: It happened when a sequence needed its first token of a new block, and no block was free.
-- zh: 它发生在某个序列要写新块的第一个 token、又没有空闲块的时候。
-- en but: engine {engine}, step {step}: needed {need} blocks with {free} free, victim at {lost} tokens
-- zh but: 引擎 {engine} 第 {step} 步：需 {need} 块，空闲 {free}，被抢占者已算 {lost}
SELECT engine_id AS engine, step, a2 AS need, a3 AS free, a1 AS lost FROM decision
WHERE code = 501 AND (a3 <> 0 OR a1 % 16 <> 0) ORDER BY 1, 2;

-- check: the_bill
-- en: Without a cache all 64 lost tokens were computed again; with it, 32 were found and 32 paid.
-- zh: 无缓存时失去的 64 个 token 全部重算；有缓存时找回 32，重付 32。
-- en but: engine {engine}: found {found}, computed again {again}, instead of {want_found} and {want_again}
-- zh but: 引擎 {engine}：找回 {found}，重算 {again}，应为 {want_found} 和 {want_again}
SELECT engine, coalesce(r.num_cached_tokens, 0) AS found, coalesce(r.num_recomputed_tokens, 0) AS again,
       want_found, want_again
FROM (VALUES (0, 0, 64), (1, 32, 32)) v(engine, want_found, want_again)
LEFT JOIN step_request r ON r.engine_id = engine AND r.code = 104
WHERE found <> want_found OR again <> want_again ORDER BY 1;

-- check: nobody_overtakes
-- en: While it waited, nobody was admitted.
-- zh: 它等待期间没有人被准入。
-- en but: engine {engine}, step {step}: request {who} was admitted
-- zh but: 引擎 {engine} 第 {step} 步：请求 {who} 被准入
SELECT r.engine_id AS engine, r.step, r.request_id & 15 AS who FROM step_request r
JOIN decision d ON d.engine_id = r.engine_id AND d.code = 501
WHERE r.code = 103 AND r.step >= d.step ORDER BY 1, 2;
