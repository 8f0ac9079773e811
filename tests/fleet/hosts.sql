-- fleet hosts, by SQLite's window functions: every site on every host, 0 where it is not. Of n values the
-- p-quantile is number ceil(p n) in ascending order. {latest}: latest.sql.
WITH
    chosen AS (SELECT snapshot_id, host FROM snapshot WHERE snapshot_id IN ({latest})),
    host AS (SELECT DISTINCT host FROM chosen),
    number AS (SELECT count(*) AS n FROM host),
    had AS (SELECT site, host, sum(bytes) AS bytes FROM chosen INNER JOIN held USING (snapshot_id)
            GROUP BY site, host),
    value AS (SELECT site, host, coalesce(bytes, 0) AS bytes, bytes IS NOT NULL AS has
              FROM (SELECT DISTINCT site FROM had) CROSS JOIN host LEFT JOIN had USING (site, host)),
    ranked AS (SELECT *, row_number() OVER (PARTITION BY site ORDER BY bytes) AS place,
                      row_number() OVER (PARTITION BY site ORDER BY bytes DESC, host) AS place_from_end
               FROM value),
    middle AS (SELECT site, sum(CASE WHEN place = (n + 1) / 2 THEN bytes END) AS median,
                      sum(CASE WHEN place = (95 * n + 99) / 100 THEN bytes END) AS p95,
                      max(bytes) AS most, sum(bytes) AS bytes, sum(has) AS hosts,
                      max(CASE WHEN place_from_end = 1 THEN host END) AS most_host
               FROM ranked CROSS JOIN number GROUP BY site),
    away AS (SELECT site, value.bytes - median AS distance, row_number() OVER (
                 PARTITION BY site ORDER BY abs(value.bytes - median)) AS place
             FROM value INNER JOIN middle USING (site)),
    spread AS (SELECT site, abs(distance) AS mad FROM away CROSS JOIN number WHERE place = (n + 1) / 2),
    scale AS (SELECT site, mad, max(mad, median / 100.0, 4096) AS scale FROM spread INNER JOIN middle USING (site)),
    outlier AS (SELECT site, sum(distance > 3.5 / 0.6745 * scale) AS outliers
                FROM away INNER JOIN scale USING (site) GROUP BY site)
SELECT site, median, p95, most, mad, bytes, most_host, hosts, outliers,
       (most - median) * 0.6745 / scale AS score
FROM middle INNER JOIN scale USING (site) INNER JOIN outlier USING (site)
