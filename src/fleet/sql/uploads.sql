-- Part of the other questions, as {chosen}: one upload of each snapshot. {snapshots}: latest.sql or all-times.sql.
SELECT min(upload_id) AS chosen_id FROM snapshot WHERE snapshot_id IN ({snapshots}) GROUP BY snapshot_id
