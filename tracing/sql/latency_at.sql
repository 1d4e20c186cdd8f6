-- latency_percentiles.sql as it stood at the moment $t_ns (epoch ns): over requests that had ended and tokens that
-- had come by then. One row per metric, in ns.
WITH l AS (SELECT v.* FROM latency v JOIN request_end e USING (request_id) WHERE e.end_ns <= $t_ns),
v AS (
    UNPIVOT (SELECT ttft_ns::DOUBLE AS ttft_ns, tpot_ns::DOUBLE AS tpot_ns, e2e_ns::DOUBLE AS e2e_ns,
                    queue_ns::DOUBLE AS queue_ns FROM l)
    ON COLUMNS(*) INTO NAME metric VALUE ns
    UNION ALL
    SELECT 'itl_ns', gap_ns::DOUBLE FROM token WHERE gap_ns IS NOT NULL AND ts_ns <= $t_ns)
SELECT metric, count(*) AS n, avg(ns) AS mean, quantile_cont(ns, 0.5) AS p50,
       CASE WHEN count(*) >= 20 THEN quantile_cont(ns, 0.95) END AS p95,
       CASE WHEN count(*) >= 100 THEN quantile_cont(ns, 0.99) END AS p99,
       max(ns) AS max
FROM v GROUP BY metric ORDER BY metric;
