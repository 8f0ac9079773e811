-- fleet stats: bytes and blocks by site. {text} and {number}: what a site is (questions.py); {latest}: latest.sql.
-- Tracebacks are added up first, since they are few; then they get their names.
SELECT site_text, site_number, sum(bytes) AS site_bytes, sum(blocks) AS site_blocks
FROM (
    SELECT {text} AS site_text, {number} AS site_number, bytes, blocks
    FROM (
        SELECT traceback_id, sum(size) AS bytes, sum(count) AS blocks
        FROM allocation WHERE snapshot_id IN ({latest})
        GROUP BY traceback_id
    ) AS sums
    INNER JOIN traceback USING (traceback_id)
) AS sites
GROUP BY site_text, site_number
