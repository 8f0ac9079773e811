-- Part of hosts.sql: the number of hosts. {chosen}: latest.sql.
SELECT count(DISTINCT host) FROM snapshot WHERE upload_id IN ({chosen})
