-- What hosts.sql, trend.sql and leaks.sql begin with, as tables of SQLite's: sites by number, and their bytes by snapshot.
-- {text} and {number}: what a site is (oracle.py); {where} chooses snapshots.
DROP TABLE IF EXISTS temp.site;
DROP TABLE IF EXISTS temp.held;
CREATE TEMP TABLE site AS
SELECT traceback_id, {text} AS site_text, {number} AS site_number,
       dense_rank() OVER (ORDER BY {text}, {number}) AS site
FROM traceback;
CREATE UNIQUE INDEX temp.site_of ON site (traceback_id, site);
CREATE TEMP TABLE held AS
SELECT site, snapshot_id, sum(size) AS bytes
FROM snapshot CROSS JOIN allocation USING (snapshot_id) CROSS JOIN site USING (traceback_id)
WHERE {where}
GROUP BY snapshot_id, site;
CREATE UNIQUE INDEX temp.held_of ON held (snapshot_id, site);
