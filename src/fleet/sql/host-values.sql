-- Part of hosts.sql: the bytes of each site on each host that has it. {chosen}: latest.sql; {sites}: sites.sql.
SELECT site_text, site_number, host, sum(traceback_bytes) AS bytes
FROM (
    SELECT host, traceback_id, sum(size) AS traceback_bytes
    FROM (
        SELECT upload_id, traceback_id, size FROM allocation WHERE upload_id IN ({chosen})
    ) AS held
    INNER JOIN (
        SELECT DISTINCT upload_id, host FROM snapshot WHERE upload_id IN ({chosen})
    ) AS from_host USING (upload_id)
    GROUP BY host, traceback_id
) AS sums
INNER JOIN ({sites}) AS sites USING (traceback_id)
GROUP BY site_text, site_number, host
