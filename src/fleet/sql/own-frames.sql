-- Part of units.sql: the own frame alone, unless other snapshots lend names to it or to what it called.
CASE WHEN own >= 0 AND traceback_id NOT IN (
    SELECT traceback_id
    FROM (
        SELECT traceback_id, position FROM traceback_frame
        WHERE frame_id IN (SELECT frame_id FROM place WHERE place IN ({lendable}))
    ) AS lacking
    INNER JOIN (SELECT traceback_id, max(own_position) AS own_at FROM traceback GROUP BY traceback_id) AS own_frames
        USING (traceback_id)
    WHERE position <= own_at
) THEN 0 - own ELSE traceback_id END
