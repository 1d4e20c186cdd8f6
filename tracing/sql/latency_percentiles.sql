-- Latency percentiles over all ended requests, in ns: one row per metric.
--   ttft_ns   arrival to first sampled token        tpot_ns   mean gap between a request's output tokens
--   itl_ns    every single gap between two tokens   e2e_ns    arrival to end        queue_ns  waiting to be admitted
-- n: samples. A percentile is NULL where it cannot be estimated: p95 from 20 samples on, p99 from 100 on,
-- so that at least one sample lies beyond it. No parameters.
WITH v AS (
    UNPIVOT (SELECT ttft_ns::DOUBLE AS ttft_ns, tpot_ns::DOUBLE AS tpot_ns, e2e_ns::DOUBLE AS e2e_ns,
                    queue_ns::DOUBLE AS queue_ns FROM latency)
    ON COLUMNS(*) INTO NAME metric VALUE ns
    UNION ALL
    SELECT 'itl_ns', gap_ns::DOUBLE FROM token WHERE gap_ns IS NOT NULL)
SELECT metric, count(*) AS n, avg(ns) AS mean, quantile_cont(ns, 0.5) AS p50,
       CASE WHEN count(*) >= 20 THEN quantile_cont(ns, 0.95) END AS p95,
       CASE WHEN count(*) >= 100 THEN quantile_cont(ns, 0.99) END AS p99,
       max(ns) AS max
FROM v GROUP BY metric ORDER BY metric;
