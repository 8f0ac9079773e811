-- Part of hosts.sql: the place of each amount among those of its site, in ascending order, from 1. Any database with
-- window functions.
SELECT site_text, site_number, median, hosts, amount,
       row_number() OVER (PARTITION BY site_text, site_number ORDER BY amount) AS place
FROM ({amounts}) AS amounts
