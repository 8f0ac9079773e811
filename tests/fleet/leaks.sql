-- fleet leaks, by SQLite's window functions: sites that grow steadily on most hosts that have them. {where} chooses
-- snapshots. A process that has something of a site at some time has 0 of it at the others; one of fewer than three
-- snapshots does not count.
WITH
    chosen AS (SELECT snapshot_id, process_id, host, time,
                      count(*) OVER (PARTITION BY process_id) AS n FROM snapshot WHERE {where}),
    pair AS (SELECT DISTINCT site, process_id FROM chosen INNER JOIN held USING (snapshot_id)),
    value AS (SELECT pair.site, process_id, host, n, time, coalesce(bytes, 0) AS bytes
              FROM pair INNER JOIN chosen USING (process_id)
              LEFT JOIN held ON held.snapshot_id = chosen.snapshot_id AND held.site = pair.site),
    step AS (SELECT *, bytes - lag(bytes) OVER (PARTITION BY site, process_id ORDER BY time) AS step
             FROM value),
    process AS (SELECT site, process_id, host, n, coalesce(sum(step > 0), 0) AS ups,
                       coalesce(sum(step < 0), 0) AS downs, coalesce(sum(step), 0) AS growth
                FROM step GROUP BY site, process_id),
    judged AS (SELECT *, growth > 0 AND ups >= 2 AND 2 * ups >= n - 1 AND 4 * ups >= 3 * (ups + downs) AS grows
               FROM process WHERE n >= 3),
    on_host AS (SELECT site, host, count(*) AS processes, sum(grows) AS growing,
                       sum(CASE WHEN grows THEN growth ELSE 0 END) AS growth
                FROM judged GROUP BY site, host),
    found AS (SELECT site, count(*) AS hosts, sum(growing > 0) AS hosts_growing, sum(processes) AS processes,
                     sum(growing) AS processes_growing, sum(growth) AS growth
              FROM on_host GROUP BY site)
SELECT * FROM found
WHERE hosts_growing > 0 AND 2 * hosts_growing >= hosts AND (hosts_growing >= 2 OR hosts = 1)
