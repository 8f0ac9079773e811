-- How many processes have something of a site at any time, after held.sql. {where} chooses snapshots.
SELECT site, count(DISTINCT process_id) AS processes
FROM held INNER JOIN snapshot USING (snapshot_id)
WHERE {where}
GROUP BY site
