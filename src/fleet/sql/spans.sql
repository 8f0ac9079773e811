-- Part of levers.sql: the recordings without gaps. {moments}: moments.sql.
SELECT process_id, recording_ns, first_ns, last_ns, nr, since_first
FROM (
    SELECT process_id, recording_ns, max(begin_ns) AS first_ns, max(end_ns) AS last_ns, count(*) AS nr,
           sum(clock_ns - begin_ns) AS since_first
    FROM ({moments}) AS moments
    INNER JOIN (
        SELECT process_id, recording_ns, min(clock_ns) AS begin_ns, max(clock_ns) AS end_ns, max(gap_count) AS gaps
        FROM ({moments}) AS moments
        GROUP BY process_id, recording_ns
    ) AS limits USING (process_id, recording_ns)
    WHERE gaps = 0
    GROUP BY process_id, recording_ns
) AS without_gaps
