-- fleet trend: least squares of bytes over seconds, with a level of its own for each process. {where} chooses
-- snapshots. With mean = the mean time of a process, sum (t - mean)(y - mean y) = sum (t - mean) y, so that what is
-- 0 adds nothing and needs no row; and the sum below the fraction is the same for every site.
-- n t - sum of t are whole numbers: only the last step divides.
SELECT site_text, site_number, sum(above) / (
           SELECT sum((n * time - times) * (n * time - times) / (n * n * 1.0))
           FROM (SELECT process_id, count(*) AS n, sum(time) AS times
                 FROM snapshot WHERE {where} GROUP BY process_id) AS p
           INNER JOIN (SELECT process_id, time FROM snapshot WHERE {where}) AS s USING (process_id)
       ) AS slope, sum(first_bytes) AS site_first, sum(last_bytes) AS site_last
FROM (
    SELECT {text} AS site_text, {number} AS site_number, above, first_bytes, last_bytes
    FROM (
        SELECT traceback_id, sum(size * weight / (n * 1.0)) AS above,
               sum(CASE WHEN taken = first THEN size ELSE 0 END) AS first_bytes,
               sum(CASE WHEN taken = last THEN size ELSE 0 END) AS last_bytes
        FROM (
            SELECT snapshot_id, s.time AS taken, n, n * s.time - times AS weight, first, last
            FROM (SELECT process_id, count(*) AS n, sum(time) AS times, min(time) AS first, max(time) AS last
                  FROM snapshot WHERE {where} GROUP BY process_id) AS p
            INNER JOIN snapshot AS s USING (process_id)
            WHERE {where}
        ) AS moments
        INNER JOIN allocation USING (snapshot_id)
        GROUP BY traceback_id
    ) AS sums
    INNER JOIN traceback USING (traceback_id)
) AS sites
GROUP BY site_text, site_number
