-- Counts from the beginning of $engine to its step $n, which ended at $t_ns (epoch ns).
SELECT count(*) AS steps, coalesce(sum(num_tokens), 0)::BIGINT AS computed_tokens,
       coalesce(sum(num_prefill_tokens), 0)::BIGINT AS prefill_tokens,
       coalesce(sum(num_preempted), 0)::BIGINT AS preemptions,
       (SELECT count(*) FROM request WHERE arrival_ns <= $t_ns) AS requests,
       (SELECT count(*) FROM request_end WHERE end_ns <= $t_ns) AS ended,
       (SELECT count(*) FROM token WHERE engine_id = $engine AND coalesce(step <= $n, ts_ns <= $t_ns))
           AS output_tokens,
       (SELECT coalesce(sum(lost_records), 0)::BIGINT FROM ingest) AS lost_records
FROM step WHERE engine_id = $engine AND step <= $n AND end_ns IS NOT NULL;
