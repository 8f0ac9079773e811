-- fleet stats --cumulative: a traceback counts for its own frame and each of the callers, as often as the frame is
-- there. {chosen}: latest.sql or all-times.sql; {text} and {number}: keys.sql.
SELECT site_text, site_number, sum(bytes) AS site_bytes, sum(blocks) AS site_blocks
FROM (
    SELECT frame_id, sum(traceback_bytes) AS bytes, sum(traceback_blocks) AS blocks
    FROM (
        SELECT traceback_id, traceback_bytes, traceback_blocks, first_position
        FROM (
            SELECT traceback_id, sum(size) AS traceback_bytes, sum(count) AS traceback_blocks
            FROM allocation WHERE upload_id IN ({chosen})
            GROUP BY traceback_id
        ) AS sums
        INNER JOIN (
            SELECT traceback_id, max(own_position) AS first_position FROM traceback GROUP BY traceback_id
        ) AS own USING (traceback_id)
    ) AS known
    INNER JOIN (
        SELECT DISTINCT traceback_id, position, frame_id FROM traceback_frame
    ) AS frames USING (traceback_id)
    WHERE position >= first_position
    GROUP BY frame_id
) AS by_frame
INNER JOIN (
    SELECT DISTINCT frame_id, {text} AS site_text, {number} AS site_number FROM frame
) AS names USING (frame_id)
GROUP BY site_text, site_number
