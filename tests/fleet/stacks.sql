-- The frames of each distinct traceback, most recent call first.
SELECT stack, site_text, site_number
FROM (SELECT min(traceback_id) AS traceback_id, stack FROM traceback GROUP BY stack) AS one
INNER JOIN (SELECT traceback_id, position, {text} AS site_text, {number} AS site_number
            FROM traceback_frame) AS frame USING (traceback_id)
ORDER BY stack, position
