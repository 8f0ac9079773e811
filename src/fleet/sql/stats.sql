-- fleet stats: bytes and blocks by site. {chosen}: latest.sql or all-times.sql; {sites}: sites.sql.
-- Tracebacks are added up first, since they are few; then they get their names.
SELECT site_text, site_number, sum(bytes) AS site_bytes, sum(blocks) AS site_blocks
FROM (
    SELECT traceback_id, sum(size) AS bytes, sum(count) AS blocks
    FROM allocation WHERE upload_id IN ({chosen})
    GROUP BY traceback_id
) AS sums
INNER JOIN ({sites}) AS sites USING (traceback_id)
GROUP BY site_text, site_number
