-- Part of hosts.sql: the bytes of each group in each snapshot. {table} and {sums}: allocation, or sample for what samples
-- stand for besides themselves. The other places are those of units.sql and origins.sql.
SELECT upload_id, group_nr, {sums}
FROM {table}
INNER JOIN (
    SELECT traceback_id, domain, group_nr
    FROM (
        SELECT traceback_id, {unit} AS unit
        FROM (
            SELECT traceback_id, max(CASE WHEN rules = {rules} THEN own_frame_id ELSE -1 END) AS own
            FROM traceback GROUP BY traceback_id
        ) AS named
    ) AS units
    INNER JOIN (SELECT unit, domain, group_nr FROM grouped) AS groups USING (unit)
) AS grouped_tracebacks USING (traceback_id, domain)
WHERE time BETWEEN {first} AND {last} AND upload_id IN (SELECT chosen_id FROM chosen)
GROUP BY upload_id, group_nr
