-- fleet trend: least squares of bytes over seconds, with a level of its own for each recording of a process. With mean
-- = the mean time of a recording, sum (t - mean)(y - mean y) = sum (t - mean) y, so that what is 0 adds nothing and needs
-- no row. The slope is of the recordings that have the site; what they gain together is the sum of each one's own slope
-- times its time. Recordings with blocks that may be gone are left out. {chosen}: all-times.sql; {sites}: sites.sql.
SELECT site_text, site_number,
       CASE WHEN sum(square) > 0 THEN sum(above) / sum(square) ELSE 0 END AS slope,
       sum(CASE WHEN square > 0 THEN above / square * length ELSE 0 END) AS growth, sum(first_bytes) AS first_size,
       sum(last_bytes) AS last_size, count(DISTINCT process_id) AS processes
FROM (
    SELECT site_text, site_number, process_id, recording_ns, max(snapshots) AS nr, sum(moments) / max(snapshots) AS above,
           max(squares) AS square, max(seconds) AS length, sum(first_sizes) AS first_bytes,
           sum(last_sizes) AS last_bytes
    FROM (
        SELECT traceback_id, process_id, recording_ns, max(nr) AS snapshots, sum(size * lever) AS moments,
               max(square_sum) AS squares, max(duration) AS seconds,
               sum(CASE WHEN is_first = 1 THEN size ELSE 0 END) AS first_sizes,
               sum(CASE WHEN is_last = 1 THEN size ELSE 0 END) AS last_sizes
        FROM (
            SELECT upload_id, traceback_id, size FROM allocation WHERE upload_id IN ({chosen})
        ) AS held
        INNER JOIN ({levers}) AS levers USING (upload_id)
        GROUP BY traceback_id, process_id, recording_ns
    ) AS sums
    INNER JOIN ({sites}) AS sites USING (traceback_id)
    GROUP BY site_text, site_number, process_id, recording_ns
) AS recordings
GROUP BY site_text, site_number
