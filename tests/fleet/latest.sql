-- The snapshots of a cohort: of each process the last one that fits. {where}: a condition on the columns of snapshot.
SELECT s.snapshot_id
FROM (SELECT process_id, max(time) AS latest FROM snapshot WHERE {where} GROUP BY process_id) AS l
INNER JOIN snapshot AS s ON l.process_id = s.process_id AND l.latest = s.time
