-- What belongs to steps $a to $b of $engine: the core's records in (lo_seq, hi_seq], its rows and tokens of steps up
-- to last_step, front ends' facts in the time (lo_ns, hi_ns] (epoch ns); each from the close of the step before to
-- the close of step $b. Open at both ends of what there is: what came before the first step belongs to that one,
-- what came after the last step to the one that has not come. With overlapped steps, some records of a step lie
-- before the close of the one before it. One query, so that it is one moment of a run that goes on.
WITH s AS (
    SELECT coalesce(max(end_ns) FILTER (step < $a), 0) AS lo_ns,
           CASE WHEN max(step) >= $b THEN max(end_ns) FILTER (step <= $b) ELSE 9223372036854775807 END AS hi_ns,
           coalesce(max(seq) FILTER (step < $a), -1) AS lo_seq,
           max(seq) FILTER (step <= $b) AS hi_seq, max(step) AS newest
    FROM step WHERE engine_id = $engine AND end_ns IS NOT NULL),
r AS (
    SELECT max(seq) AS seq FROM (
        SELECT max(seq) AS seq FROM kv_event WHERE engine_id = $engine
        UNION ALL SELECT max(seq) FROM decision WHERE engine_id = $engine
        UNION ALL SELECT max(seq) FROM cache_event WHERE engine_id = $engine))
SELECT lo_ns, hi_ns, lo_seq,
       CASE WHEN newest >= $b THEN hi_seq ELSE greatest(hi_seq, coalesce(r.seq, -1)) END AS hi_seq,
       least($b, coalesce(newest, -1)) AS last_step
FROM s, r;
