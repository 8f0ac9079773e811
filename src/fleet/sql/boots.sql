-- Part of fates.sql: the boots of some hosts, and the times of their snapshots.
SELECT host_id, boot, min(time_ns) AS first_ns, max(time_ns) AS last_ns, max(monotonic_ns) AS newest_ns,
       max(CASE WHEN trigger IN ('interval', 'signal', 'duration', 'last') THEN recording_ns ELSE 0 END) AS newest_recording_ns
FROM snapshot WHERE {among} GROUP BY host_id, boot
