-- The chosen snapshots, one upload of each, and what became of their processes. Those that are left out, as they are not
-- {live}, are added up in two rows, of uploads 0 and -1: which had ended, and which were not seen again. {chosen_by} has a
-- bit for each cohort: latest.sql or all-times.sql.
SELECT upload, chosen_by, toInt64(count()), sum(bytes * 1.0), min(behind_ns), max(behind_ns), toInt64(max(overlaps)), max(time),
       max(fate)
FROM (
    SELECT CASE WHEN {live} THEN least_upload_id WHEN fate = 'not seen again' THEN -1 ELSE toInt64(0) END AS upload,
           chosen_by, bytes, behind_ns, overlaps, snapshot_time AS time, fate
    FROM (
        SELECT process_id, min(upload_id) AS least_upload_id, max(size) AS bytes, max(time) AS snapshot_time, chosen_by
        FROM (
            SELECT process_id, snapshot_id, upload_id, size, time, toInt64({chosen_by}) AS chosen_by FROM snapshot
        ) AS marked
        WHERE chosen_by > 0 GROUP BY process_id, snapshot_id, chosen_by
    ) AS chosen_snapshots
    INNER JOIN ({fates}) AS fates USING (process_id)
) AS placed
GROUP BY upload, chosen_by
ORDER BY upload
