-- fleet trend, after held.sql: least squares of bytes over seconds, with a level of its own for each process. {where}
-- chooses snapshots. With mean = the mean time of a process, sum (t - mean)(y - mean y) = sum (t - mean) y, so that what
-- is 0 adds nothing and needs no row. n t - sum of t are whole numbers: only the last steps divide. The slope is of the
-- processes that have the site; what they gain together is the sum of each one's own slope times its time.
WITH
    moment AS (SELECT snapshot_id, process_id, time, n, n * time - times AS lever, first, last
               FROM (SELECT process_id, count(*) AS n, sum(time) AS times, min(time) AS first, max(time) AS last
                     FROM snapshot WHERE {where} GROUP BY process_id) AS p
               INNER JOIN (SELECT snapshot_id, process_id, time FROM snapshot WHERE {where}) AS s USING (process_id)),
    square AS (SELECT process_id, last - first AS length, sum(lever * lever / (n * n * 1.0)) AS square
               FROM moment GROUP BY process_id),
    own AS (SELECT site, process_id, sum(bytes * lever / (n * 1.0)) AS above,
                   sum(CASE WHEN time = first THEN bytes ELSE 0 END) AS first_bytes,
                   sum(CASE WHEN time = last THEN bytes ELSE 0 END) AS last_bytes
            FROM held INNER JOIN moment USING (snapshot_id)
            GROUP BY site, process_id)
SELECT site, sum(above) / sum(square) AS slope, sum(above / square * length) AS growth,
       sum(first_bytes) AS site_first, sum(last_bytes) AS site_last, count(*) AS processes
FROM own INNER JOIN square USING (process_id)
GROUP BY site
