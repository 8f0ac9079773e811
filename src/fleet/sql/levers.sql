-- Part of trend.sql: how far each snapshot is from the mean time of its recording, times the number of its snapshots.
-- {spans}: spans.sql; {chosen}: all-times.sql.
SELECT upload_id, process_id, recording_ns, nr, lever, square_sum, duration, is_first, is_last
FROM (
    SELECT upload_id, process_id, recording_ns, nr, (nr * (clock_ns - first_ns) - since_first) / 1000000000.0 AS lever,
           (last_ns - first_ns) / 1000000000.0 AS duration, CASE WHEN clock_ns = first_ns THEN 1 ELSE 0 END AS is_first,
           CASE WHEN clock_ns = last_ns THEN 1 ELSE 0 END AS is_last
    FROM ({moments}) AS moments
    INNER JOIN ({spans}) AS spans USING (process_id, recording_ns)
) AS each
INNER JOIN (
    SELECT process_id, recording_ns, sum(lever_of * lever_of) AS square_sum
    FROM (
        SELECT process_id, recording_ns, (nr * (clock_ns - first_ns) - since_first) / 1000000000.0 / nr AS lever_of
        FROM ({moments}) AS moments
        INNER JOIN ({spans}) AS spans USING (process_id, recording_ns)
    ) AS distances
    GROUP BY process_id, recording_ns
) AS squares USING (process_id, recording_ns)
