-- fleet stats --cumulative: a traceback counts for each of its frames, as often as the frame is there.
SELECT site_text, site_number, sum(bytes) AS site_bytes, sum(blocks) AS site_blocks
FROM (
    SELECT {text} AS site_text, {number} AS site_number, bytes, blocks
    FROM (
        SELECT traceback_id, sum(size) AS bytes, sum(count) AS blocks
        FROM allocation WHERE snapshot_id IN ({latest})
        GROUP BY traceback_id
    ) AS sums
    INNER JOIN traceback_frame USING (traceback_id)
) AS sites
GROUP BY site_text, site_number
