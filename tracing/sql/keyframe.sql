-- Where to begin for the state after step $n of $engine; its answer is what kv_at and tree_at take.
--   k, k_seq   the last keyframe at or before that moment (-1: none, begin with an untouched pool)
--   n_seq      the moment: the record that closed the step; after the last finished step, the end of the trace
-- A query of its own, because constants let the next two skip what lies outside, and a subquery does not.
WITH t AS (
    SELECT CASE WHEN $n > coalesce((SELECT max(step) FROM step WHERE engine_id = $engine AND end_ns IS NOT NULL), -1)
                THEN 9223372036854775807
                ELSE (SELECT max(seq) FROM step WHERE engine_id = $engine AND step <= $n) END AS n_seq)
SELECT coalesce(max(s.step), -1) AS k, coalesce(max(s.seq), -1) AS k_seq, any_value(t.n_seq) AS n_seq
FROM t LEFT JOIN kv_snapshot s ON s.engine_id = $engine AND s.seq <= t.n_seq;
