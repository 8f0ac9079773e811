-- fleet hosts: how a site's bytes differ between hosts. A host without the site has 0. {values}: host-values.sql;
-- {middles}: host-middles.sql; {spread}: host-spread.sql.
SELECT site_text, site_number, max(site_median) AS median, max(site_p95) AS p95, max(site_most) AS most,
       max(site_mad) AS mad, sum(bytes) AS site_bytes, min(CASE WHEN bytes = site_most THEN host END) AS most_host,
       count(*) AS hosts, sum(CASE WHEN bytes - site_median > 3.5 / 0.6745 * scale THEN 1 ELSE 0 END) AS outliers,
       max((site_most - site_median) * 0.6745 / scale) AS score
FROM ({values}) AS had
INNER JOIN (
    SELECT site_text, site_number, site_median, site_p95, site_most, site_mad,
           CASE WHEN site_mad >= 4096 AND site_mad >= site_median / 100.0 THEN site_mad * 1.0
                WHEN site_median / 100.0 >= 4096 THEN site_median / 100.0 ELSE 4096.0 END AS scale
    FROM ({middles}) AS middles
    INNER JOIN ({spread}) AS spread USING (site_text, site_number)
) AS scales USING (site_text, site_number)
GROUP BY site_text, site_number
