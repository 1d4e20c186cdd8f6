-- Distribution of the latencies of latency_percentiles: buckets [lo_ns, hi_ns), twelve to a factor of ten, with the
-- number of samples in each; empty ones are left out. No parameters.
WITH v AS (
    UNPIVOT (SELECT ttft_ns::DOUBLE AS ttft_ns, tpot_ns::DOUBLE AS tpot_ns, e2e_ns::DOUBLE AS e2e_ns,
                    queue_ns::DOUBLE AS queue_ns FROM latency)
    ON COLUMNS(*) INTO NAME metric VALUE ns
    UNION ALL
    SELECT 'itl_ns', gap_ns::DOUBLE FROM token WHERE gap_ns IS NOT NULL),
b AS (SELECT metric, floor(12 * log10(greatest(ns, 1)))::INTEGER AS bucket, count(*) AS n FROM v GROUP BY ALL)
SELECT metric, pow(10, bucket / 12.0) AS lo_ns, pow(10, (bucket + 1) / 12.0) AS hi_ns, n
FROM b ORDER BY metric, bucket;
