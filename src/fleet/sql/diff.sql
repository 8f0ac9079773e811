-- fleet diff: {baseline} and {candidate} are latest.sql or all-times.sql of the two. What one has not is 0, and rows
-- without a difference stay. {sites}: sites.sql.
SELECT site_text, site_number, new_bytes, new_blocks, new_bytes - old_bytes AS bytes_diff,
       new_blocks - old_blocks AS blocks_diff
FROM (
    SELECT site_text, site_number, sum(old_size) AS old_bytes, sum(old_count) AS old_blocks,
           sum(new_size) AS new_bytes, sum(new_count) AS new_blocks
    FROM (
        SELECT traceback_id, sum(size) AS old_size, sum(count) AS old_count, 0 AS new_size, 0 AS new_count
        FROM allocation WHERE upload_id IN ({baseline})
        GROUP BY traceback_id
        UNION ALL
        SELECT traceback_id, 0 AS old_size, 0 AS old_count, sum(size) AS new_size, sum(count) AS new_count
        FROM allocation WHERE upload_id IN ({candidate})
        GROUP BY traceback_id
    ) AS sums
    INNER JOIN ({sites}) AS sites USING (traceback_id)
    GROUP BY site_text, site_number
) AS both_sides
