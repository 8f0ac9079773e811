-- Part of the other questions, instead of latest.sql: all snapshots that fit. {where}: a condition on the columns of
-- snapshot.
SELECT DISTINCT snapshot_id AS chosen_id FROM snapshot WHERE {where}
