-- Where a screen stands: the engine ($engine, or -1: its latest life) and the last step of it that had finished at
-- step $n. last_step: the last one that has finished at all. level: what is recorded now. NULL: none of it known.
WITH core AS (SELECT engine_id, level, started_ns FROM proc
              WHERE role = 'core' AND ($engine < 0 OR engine_id = $engine) ORDER BY engine_id DESC LIMIT 1)
SELECT (SELECT engine_id FROM core) AS engine_id,
       coalesce((SELECT arg_max(a1, ts_ns) FROM event JOIN core USING (engine_id) WHERE code = 1003),
                (SELECT level FROM core))::TINYINT AS level,
       (SELECT max(step) FROM step JOIN core USING (engine_id) WHERE end_ns IS NOT NULL AND step <= $n) AS step,
       coalesce((SELECT max(step) FROM step JOIN core USING (engine_id) WHERE end_ns IS NOT NULL), -1) AS last_step,
       (SELECT any_value(policy) FROM run) AS policy,
       (SELECT any_value(config ->> 'scheduling_policy') FROM run) AS scheduling_policy;
