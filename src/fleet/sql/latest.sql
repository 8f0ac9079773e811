-- Part of the other questions: the last snapshot of each process that fits. {where}: a condition on the columns of
-- snapshot.
SELECT max(snapshot_id) AS chosen_id FROM snapshot
WHERE {where} AND (process_id, moment) IN (SELECT process_id, max(moment) FROM snapshot WHERE {where} GROUP BY process_id)
GROUP BY process_id
