-- Part of the other questions: what became of processes, and by how much the newest snapshot of its host is later than the
-- last one of a process. The last one says the end itself; or the process has a later program, or the host a later boot.
-- Or the process was not seen again: two snapshots were due since, or its recording had stopped before another one of the
-- host began. overlaps: other boots of the host have snapshots of the same time. {those}: a condition on the columns of
-- snapshot that takes whole processes; {among}: the same for their hosts; {boots}: boots.sql.
SELECT process_id,
       CASE WHEN last_ending NOT IN ('', 'running') THEN last_ending
            WHEN is_known = 1 AND exec_count < last_exec THEN 'replaced by exec'
            WHEN boot = 0 THEN last_ending
            WHEN newest_boot_ns > last_ns THEN 'gone with an earlier boot'
            WHEN seen_ns > 0 AND due_ns > 0 AND newest_ns - seen_ns - due_ns > due_ns THEN 'not seen again'
            WHEN seen_ns > 0 AND last_trigger IN ('duration', 'last') AND newest_recording_ns > seen_ns THEN 'not seen again'
            ELSE last_ending END AS fate,
       CASE WHEN boot <> 0 AND newest_boot_ns <= last_ns AND seen_ns > 0 THEN newest_ns - seen_ns
            ELSE newest_time_ns - last_time_ns END AS behind_ns,
       overlaps
FROM (
    SELECT process_id, host_id, boot, is_known, exec_count, last_ending, last_trigger, last_time_ns, seen_ns, due_ns, last_exec
    FROM (
        SELECT process_id, host_id, boot, task, exec_count, max(CASE WHEN start_ticks <> 0 THEN 1 ELSE 0 END) AS is_known,
               argMax(ending, moment) AS last_ending, argMax(trigger, moment) AS last_trigger,
               argMax(time_ns, moment) AS last_time_ns, argMax(monotonic_ns, moment) AS seen_ns,
               argMax(interval_ns, moment) AS due_ns
        FROM snapshot WHERE {those} GROUP BY process_id, host_id, boot, task, exec_count
    ) AS lasts
    INNER JOIN (
        SELECT task, max(exec_count) AS last_exec FROM snapshot WHERE {among} GROUP BY task
    ) AS programs USING (task)
) AS known
INNER JOIN (
    SELECT host_id, boot, last_ns, newest_ns, newest_recording_ns, max(other_last_ns) AS newest_time_ns,
           max(CASE WHEN other_boot <> 0 THEN other_first_ns ELSE -9000000000000000000 END) AS newest_boot_ns,
           sum(CASE WHEN boot <> 0 AND other_boot <> 0 AND other_boot <> boot AND other_first_ns <= last_ns
                    AND first_ns <= other_last_ns THEN 1 ELSE 0 END) AS overlaps
    FROM ({boots}) AS boots
    INNER JOIN (
        SELECT host_id, boot AS other_boot, first_ns AS other_first_ns, last_ns AS other_last_ns FROM ({boots}) AS other_boots
    ) AS others USING (host_id)
    GROUP BY host_id, boot, last_ns, newest_ns, newest_recording_ns
) AS boots_of_hosts USING (host_id, boot)
