-- The frames of each distinct traceback from its own frame on, most recent call first. {text} and {number}: keys.sql.
SELECT stack_id, site_text, site_number
FROM (
    SELECT stack_id, position, frame_id
    FROM (
        SELECT stack AS stack_id, min(traceback_id) AS traceback_id, max(own_position) AS first_position
        FROM (
            SELECT stack, traceback_id, own_position
            FROM (
                SELECT stack, min(traceback_id) AS traceback_id FROM traceback GROUP BY stack
            ) AS least
            INNER JOIN (SELECT DISTINCT traceback_id, own_position FROM traceback) AS own USING (traceback_id)
        ) AS one_of_each
        GROUP BY stack
    ) AS one
    INNER JOIN (SELECT DISTINCT traceback_id, position, frame_id FROM traceback_frame) AS frames USING (traceback_id)
    WHERE position >= first_position
) AS placed
INNER JOIN (
    SELECT DISTINCT frame_id, {text} AS site_text, {number} AS site_number FROM frame
) AS names USING (frame_id)
ORDER BY stack_id, position
