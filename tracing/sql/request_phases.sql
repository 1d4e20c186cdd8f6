-- The phases of $request in order; they tile its life. dur_ns: duration.
SELECT phase, start_ns, end_ns, end_ns - start_ns AS dur_ns, first_step, last_step
FROM request_phase WHERE request_id = $request ORDER BY start_ns, end_ns;
