-- Part of hosts.sql: how far each value is from the median. {values}: host-values.sql; {middles}: host-middles.sql.
SELECT site_text, site_number, site_median AS median, site_hosts AS hosts,
       CASE WHEN bytes > site_median THEN bytes - site_median ELSE site_median - bytes END AS amount
FROM ({values}) AS had
INNER JOIN ({middles}) AS middles USING (site_text, site_number)
