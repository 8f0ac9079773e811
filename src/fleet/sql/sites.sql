-- Part of the other questions: the site of each traceback's own frame. {text} and {number}: what a site is (keys.sql).
SELECT traceback_id, {text} AS site_text, {number} AS site_number
FROM (
    SELECT traceback_id, max(own_frame_id) AS frame_id, max(stack) AS stack
    FROM (SELECT traceback_id, own_frame_id, stack FROM traceback) AS pushed
    GROUP BY traceback_id
) AS own
INNER JOIN (
    SELECT DISTINCT frame_id, func, file, line, first_line, module, build_id, offset FROM frame
) AS names USING (frame_id)
