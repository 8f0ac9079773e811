-- Part of fleet stats and fleet hosts: the processes that had ended, which they leave out of the latest snapshots. A
-- process's last snapshot says so itself; or the process has a later program, or the host a later boot. Or the process was
-- not seen again: two snapshots were due since, or its recording had stopped before another one of the host began.
SELECT process_id
FROM (
    SELECT process_id, host, boot_id, start_ticks, exec_count, ending, trigger, monotonic_ns, interval_ns, last_exec
    FROM (
        SELECT process_id, host, boot_id, pid, start_ticks, exec_count, ending, trigger, monotonic_ns, interval_ns
        FROM (
            SELECT process_id, max(moment) AS last_moment FROM snapshot GROUP BY process_id
        ) AS last_of
        INNER JOIN (
            SELECT process_id, moment AS last_moment, host, boot_id, pid, start_ticks, exec_count, ending, trigger,
                   monotonic_ns, interval_ns
            FROM snapshot
        ) AS uploaded USING (process_id, last_moment)
    ) AS lasts
    INNER JOIN (
        SELECT host, boot_id, pid, start_ticks, max(exec_count) AS last_exec
        FROM snapshot GROUP BY host, boot_id, pid, start_ticks
    ) AS programs USING (host, boot_id, pid, start_ticks)
) AS known
INNER JOIN (
    SELECT host, boot_id, last_ns, newest_ns, newest_recording_ns, next_boot_ns
    FROM (
        SELECT host, boot_id, max(time_ns) AS last_ns, max(monotonic_ns) AS newest_ns,
               max(CASE WHEN trigger IN ('interval', 'signal', 'duration', 'last') THEN recording_ns ELSE 0 END)
                   AS newest_recording_ns
        FROM snapshot GROUP BY host, boot_id
    ) AS boots
    INNER JOIN (
        SELECT host, max(first_ns) AS next_boot_ns
        FROM (
            SELECT host, min(CASE WHEN boot_id <> '' THEN time_ns END) AS first_ns FROM snapshot GROUP BY host, boot_id
        ) AS begins
        GROUP BY host
    ) AS newest_boots USING (host)
) AS boots_of_hosts USING (host, boot_id)
WHERE ending NOT IN ('', 'running')
    OR (start_ticks > 0 AND exec_count < last_exec)
    OR (boot_id <> '' AND next_boot_ns > last_ns)
    OR (boot_id <> '' AND monotonic_ns > 0 AND interval_ns > 0 AND newest_ns - monotonic_ns - interval_ns > interval_ns)
    OR (boot_id <> '' AND monotonic_ns > 0 AND trigger IN ('duration', 'last') AND newest_recording_ns > monotonic_ns)
