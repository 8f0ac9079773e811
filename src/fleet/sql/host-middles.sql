-- Part of hosts.sql: of n values the p-quantile is number ceil(p n) in ascending order. Places count from the largest
-- value, so that hosts without the site need no rows. {host_nr}: host-number.sql; {ranked_amounts}: ranks.sql or
-- ranks-arrays.sql of host-amounts.sql.
SELECT site_text, site_number, count(*) AS site_hosts, 0 - min(amount) AS site_most,
       0 - sum(CASE WHEN place = (nr - nr % 2) / 2 + 1 THEN amount ELSE 0 END) AS site_median,
       0 - sum(CASE WHEN place = nr + 1 - (95 * nr + 99 - (95 * nr + 99) % 100) / 100 THEN amount ELSE 0 END) AS site_p95
FROM (SELECT site_text, site_number, amount, place, {host_nr} AS nr FROM ({ranked_amounts}) AS ranked) AS counted
GROUP BY site_text, site_number
