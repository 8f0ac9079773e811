-- Sums by what the engine needs to name them: by {unit}. {unit} is traceback_id; or the traceback's own frame alone, as
-- 0 - frame_id (own-frames.sql). {sums}: origins.sql or spreads.sql; {columns} and {added}: its sums, and how they add up.
-- own is -1 if an allocsnap of another version pushed the traceback: it may have another own frame then.
SELECT unit, domain, {added}
FROM (
    SELECT {unit} AS unit, domain, {columns}
    FROM (
        SELECT traceback_id, domain, {columns}, max(CASE WHEN rules = {rules} THEN own_frame_id ELSE -1 END) AS own
        FROM traceback
        INNER JOIN ({sums}) AS sums USING (traceback_id)
        GROUP BY traceback_id, domain, {columns}
    ) AS named
) AS in_units
GROUP BY unit, domain
