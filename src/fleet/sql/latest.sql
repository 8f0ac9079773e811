-- Part of the other questions: the last snapshot of each process that fits. {where}: a condition on the columns of
-- snapshot.
SELECT min(upload_id) AS chosen_id
FROM (
    SELECT process_id, max(moment) AS last_moment FROM snapshot WHERE {where} GROUP BY process_id
) AS last_of
INNER JOIN (
    SELECT process_id, moment AS last_moment, upload_id FROM snapshot WHERE {where}
) AS uploaded USING (process_id, last_moment)
GROUP BY process_id
