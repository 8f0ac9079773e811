-- Part of levers.sql: the snapshots and their times. {chosen}: all-times.sql.
SELECT DISTINCT upload_id, process_id, recording_ns, clock_ns, gap_count FROM snapshot WHERE upload_id IN ({chosen})
